"""A change request, done in a copy of the sources: which files it touches, and whether its test passes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.house.repository import ROOT, SOURCE


class ScratchCopy:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text, "utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text("utf-8")
        assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times: adapt the example"
        self.write(path, text.replace(old, new))

    def changed(self) -> set[str]:
        """Files that are new, or differ from the repository's."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*.py"))
        return {
            path.as_posix()
            for path in found
            if not (ROOT / path).exists() or (ROOT / path).read_bytes() != (self.folder / path).read_bytes()
        }

    def run(self, *tests: str | Path) -> None:
        """Fails unless these tests pass against the copy."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(ROOT)])}
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(self.folder)]
        options = ["-p", "no:cacheprovider", "--import-mode=importlib"]
        paths = [str(self.folder / test) for test in tests]  # an absolute path is not changed
        done = subprocess.run(
            [*command, *options, *paths], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
