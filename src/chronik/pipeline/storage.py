"""Where tables and checkpoints are: one folder that the driver and all executors see.

A plan asks it for reasons against a place. To find out whether one can be written it writes there and cleans up.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

# Below these a path is on the machine itself, as good as always.
LOCAL_FOLDERS: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - named in order to be refused


class Storage:
    def __init__(self, root: str | Path) -> None:
        self.root = str(Path(root).expanduser().absolute())

    def why_not_writable(self, path: str) -> str:
        """Tries, in the nearest folder above that exists; nothing is left behind."""
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
        """Only a guess: a folder of this machine alone, for executors elsewhere."""
        is_elsewhere = bool(master) and not master.startswith(("local", "spark://127.", "spark://localhost"))
        if is_elsewhere and any(os.path.commonpath([path, local]) == local for local in LOCAL_FOLDERS):
            return f"{path} is a folder of this machine"
        return ""

    def has_rows(self, table: str) -> bool:
        return self.exists(str(Path(table) / "_delta_log"))

    def exists(self, path: str) -> bool:
        folder = Path(path)
        return folder.is_dir() and any(folder.iterdir())
