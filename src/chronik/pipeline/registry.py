"""All declarations of one pipeline, and loading them from a file. Loading declares; it never runs anything.

A Python file is executed as a separate module. The declarations among its names form the pipeline, in file order; there
is no global list that a second file could add to. Functions of such a module are sent to Spark's executors by value,
because executors cannot import the module.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import Bronze, Declaration, Gold, Silver, SourceLine, ToTopic

KINDS: Final = (Bronze, Silver, Gold, ToTopic)
YAML_SUFFIXES: Final = (".yaml", ".yml")
COMMAND_CONFIG: Final = "command_config"  # a variable name in the file


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`name` is part of application ids, groups and dead letters: renaming the file starts a new pipeline."""

    name: str
    file: str
    declarations: tuple[Declaration, ...]
    module: ModuleType | None = None  # None for YAML
    command_config: str = ""  # properties file for connecting to the cluster, if the pipeline names one

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self.declarations)

    def named(self, name: str) -> Declaration | None:
        return next((each for each in self.declarations if each.name == name), None)

    def of(self, kind: type[Declaration]) -> list[Declaration]:
        return [each for each in self.declarations if isinstance(each, kind)]

    def topic_of(self, declaration: Declaration) -> Bronze | None:
        """The bronze at the start of its chain of first inputs; None if there is none."""
        seen: set[str] = set()
        current: Declaration | None = declaration
        while current is not None and not isinstance(current, Bronze):
            if current.name in seen or not current.reads:
                return None
            seen.add(current.name)
            current = self.named(current.reads[0])
        return current


def load(path: str | Path) -> Pipeline:
    """Raises PipelineFault; `plan` checks the declarations against each other."""
    file = Path(path)
    try:
        text = file.read_text()
    except FileNotFoundError:
        raise PipelineFault("FILE_NOT_FOUND", file=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFault("FILE_NOT_READABLE", file=str(file), reason=str(error)) from error
    if file.suffix in YAML_SUFFIXES:
        from chronik.pipeline.yaml_twin import read_yaml

        declared = read_yaml(str(file), text)
        return pipeline_of(file, declared.declarations, command_config=declared.command_config)
    module = load_module(file)
    found = {id(value): value for value in vars(module).values() if isinstance(value, KINDS)}
    return pipeline_of(file, list(found.values()), module, getattr(module, COMMAND_CONFIG, ""))


def pipeline_of(
    file: Path, declarations: Sequence[Declaration], module: ModuleType | None = None, command_config: object = ""
) -> Pipeline:
    if not declarations:
        raise PipelineFault("NOTHING_DECLARED", file=str(file))
    ordered = sorted(declarations, key=lambda each: each.declared_at.line if each.declared_at else 0)
    name = file.stem if file.stem != "pipeline" else file.resolve().parent.name
    return Pipeline(name, str(file), tuple(ordered), module, _beside(file, command_config))


def _beside(file: Path, command_config: object) -> str:
    """A relative path starts at the pipeline's folder. The value is not shown, because it may contain secrets."""
    if not isinstance(command_config, str | Path) or "\n" in str(command_config):
        raise PipelineFault("COMMAND_CONFIG_INVALID", file=str(file))
    return str(file.resolve().parent / Path(command_config).expanduser()) if str(command_config) else ""


def load_module(file: Path) -> ModuleType:
    """The file as a module that no other code imports."""
    name = f"chronik_pipeline_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineFault("FILE_NOT_READABLE", file=str(file), reason="it is neither .py nor .yaml")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look up their module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        at = SourceLine(str(file), error.lineno or 1)
        raise PipelineFault("FILE_FAILED", at=at, file=str(file), reason=error.msg) from error
    except Exception as error:
        at = SourceLine(str(file), _line_in(file, error))
        reason = f"{type(error).__name__}: {error}"
        raise PipelineFault("FILE_FAILED", at=at, file=str(file), reason=reason) from error
    return module


def _line_in(file: Path, error: BaseException) -> int:
    """The last line of the user's file in an error's traceback."""
    line, trace = 1, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
