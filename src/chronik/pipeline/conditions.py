"""All errors of a declared pipeline, by name: one table, one exception, one message format.

A condition has a name that programs and tests compare and a sentence for users. Its parameters stay values, so that
`--format json` can output them. Nothing here knows how a condition is detected.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from chronik.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from chronik.pipeline.declarations import SourceLine

CONDITIONS: Final[dict[str, str]] = {
    # the file
    "FILE_NOT_FOUND": "there is no file {file}",
    "FILE_NOT_READABLE": "{file} cannot be read: {reason}",
    "FILE_FAILED": "{file} cannot be loaded: {reason}",
    "NOTHING_DECLARED": "{file} declares nothing: give a function @bronze(topic=...)",
    "YAML_FIELD_UNKNOWN": "{kind} {name!r} has no field {field!r}",
    "YAML_FIELD_MISSING": "{kind} {name!r} needs the field {field!r}",
    "YAML_MALFORMED": "{file} is not a pipeline: {reason}",
    "COMMAND_CONFIG_INVALID": "{file}: command_config is the name of a properties file: write security.protocol and "
    "the other keys into that file",
    # the declarations among themselves
    "NAME_TAKEN": "{name!r} is declared twice, first in line {first_line}",
    "NAME_INVALID": "{name!r} cannot name a table: use letters, digits and _, beginning with a letter",
    "TABLE_NOT_DECLARED": "{name!r} reads {table!r}, which nothing declares",
    "NOTHING_READ": "{name!r} reads nothing: name what it reads as its parameter",
    "TOO_MANY_READ": "{name!r} reads {tables}: a {kind} reads one",
    "CYCLE": "{name!r} reads itself by way of {path}",
    "GOLD_IS_THE_END": "{name!r} reads {table!r}, whose rows come from no single record: read what {table!r} reads",
    "EXPECTATION_TAKEN": "{name!r} expects {expectation!r} twice",
    "OPTION_INVALID": "{name!r}: {option} is {value!r}, and {reason}",
    # against Spark
    "SCHEMA_INVALID": "{name!r}: the schema {schema!r} cannot be read: {reason}",
    "FUNCTION_FAILED": "{name!r} fails on an empty frame: {reason}",
    "FUNCTION_RETURNS": "{name!r} returns {returned}: return a DataFrame",
    "COLUMN_NOT_FOUND": "{name!r}: {option} names the column {column!r}, which its rows do not have",
    "LINEAGE_LOST": "{name!r} drops {columns}, by which dead letters and replays find a record: "
    "select(*LINEAGE, ...), with LINEAGE of chronik.pipeline",
    "EXPECTATION_INVALID": "{name!r}: the expectation {expectation!r} cannot be evaluated: {reason}",
    # against the cluster and the storage
    "BROKER_NOT_REACHED": "no broker answers at {bootstrap}: {reason}",
    "TOPIC_NOT_FOUND": "{name!r}: topic {topic!r} does not exist",
    "TOPIC_DENIED": "{name!r}: {reason}",
    "TABLE_NOT_WRITABLE": "{name!r}: its table {path} cannot be written: {reason}",
    "CHECKPOINT_NOT_WRITABLE": "{name!r}: its checkpoint {path} cannot be written: {reason}",
    "CHECKPOINT_LOST": "{name!r}: the table {path} has rows and its checkpoint is gone; starting again would write "
    "them twice: bring the checkpoint back, or move the table away",
    "STORAGE_NOT_A_FOLDER": "--storage is {storage}, an address: tables and checkpoints of a pipeline are in a folder. "
    "Give a path that all machines see, such as one where the bucket is mounted. To write tables to an object store, "
    'use format("chronik-table") in a program of your own',
    "STORAGE_NOT_SHARED": "{name!r}: {path} is on this machine, and executors of {master} are not: "
    "give --storage a folder that all of them see",
    # while it runs
    "SPARK_MISSING": "pyspark is not installed: pip install 'chronik[spark]'",
    "JDK_MISSING": "Spark needs a JDK of version 17 or newer, and {found}: {cure}",
    "SPARK_NOT_STARTED": "Spark does not start on {master}: {reason}",
    "EXPECTATION_FAILED": "{name!r}: {count} rows fail {expectation!r} ({condition}), the first of them "
    "{topic}-{partition} offset {offset}; on_fail is fail, so nothing of this batch was written",
    "RECORD_REFUSED": "{name!r}: {count} records cannot be decoded, the first of them {topic}-{partition} offset "
    "{offset} ({reason}); on_error is fail, so nothing of this batch was written",
    "FLOW_NOT_FOUND": "the pipeline has no {name!r}",
    "FLOW_STOPPED": "{name!r} stopped: {reason}",
    "RECORDS_DIFFER": "{name!r}: {found} of {wanted} dead letters were found in {topic!r}: the others are no longer "
    "in the topic, and a letter without its record would be lost",
    "FIX_INVALID": "{file} does not define fix(letter)",
    "ROWS_FAILED": "{name!r}: {reason}",
}


class PipelineFault(PipelineError):
    """One condition with its parameters, the line of the declaration at fault, and the name that was probably meant."""

    def __init__(
        self, condition: str, /, *, at: SourceLine | None = None, nearest: str | None = None, **parameters: Any
    ) -> None:
        super().__init__(condition, **parameters)
        self.at = at
        self.nearest = nearest

    @property
    def line(self) -> int | None:
        return self.at.line if self.at is not None else None

    @property
    def sentence(self) -> str:
        place = f"{self.at}: " if self.at is not None else ""
        meant = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{place}{self.condition}: {CONDITIONS[self.condition].format(**self.parameters)}{meant}"

    def __str__(self) -> str:
        return self.sentence

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.condition, self.at, self.nearest, self.parameters)

    def document(self) -> dict[str, Any]:
        """For programs."""
        told: dict[str, Any] = {"condition": self.condition, **self.parameters}
        if self.at is not None:
            told |= {"file": self.at.file, "line": self.at.line}
        if self.nearest is not None:
            told["nearest"] = self.nearest
        return told | {"message": self.sentence}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PipelineFault) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self.condition)

    def _identity(self) -> tuple[Any, ...]:
        return self.condition, self.at, self.nearest, self.parameters


def _again(condition: str, at: SourceLine | None, nearest: str | None, parameters: dict[str, Any]) -> PipelineFault:
    return PipelineFault(condition, at=at, nearest=nearest, **parameters)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name, if any is close."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return near[0] if near else None
