"""The storage of tables and checkpoints: one folder that the driver and all executors can access.

A plan asks it for objections to a location. To check whether a location is writable it writes there and cleans up. An
address such as s3://bucket/lake is refused: as a path it would name a local folder.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Final

from chronik.pipeline.conditions import PipelineFault

# Paths below these are almost certainly local to the machine.
LOCAL_FOLDERS: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named in order to be refused


# The scheme of an address; as a path, the address may have lost a slash: s3://bucket/lake, s3:/bucket/lake.
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def folder_of(given: str | Path) -> str:
    """The absolute path of a folder. Raises PipelineFault for an address."""
    text = str(given)
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if any(SCHEME.fullmatch(part) for part in Path(text).parts[:-1]):
        raise PipelineFault("STORAGE_NOT_A_FOLDER", storage=text)
    return str(Path(text).expanduser().absolute())


class Storage:
    def __init__(self, root: str | Path) -> None:
        self.root = folder_of(root)

    def why_not_writable(self, path: str) -> str:
        """Tests the nearest existing parent folder; leaves nothing behind."""
        folder = Path(path)
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            return f"{folder} is not a folder"
        try:
            with tempfile.TemporaryFile(dir=folder):
                return ""
        except OSError as error:
            return f"{folder}: {error.strerror}"

    def why_not_shared(self, path: str, master: str) -> str:
        """Heuristic: detects a local folder used with executors on other machines."""
        is_elsewhere = bool(master) and not master.startswith(("local", "spark://127.", "spark://localhost"))
        if is_elsewhere and any(os.path.commonpath([path, local]) == local for local in LOCAL_FOLDERS):
            return f"{path} is a folder of this machine"
        return ""

    def has_rows(self, table: str) -> bool:
        return self.exists(str(Path(table) / "_delta_log"))

    def exists(self, path: str) -> bool:
        folder = Path(path)
        return folder.is_dir() and any(folder.iterdir())
