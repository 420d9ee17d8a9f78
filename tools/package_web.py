"""Fetches the console's libraries before a wheel is built, so that it contains them.

hatchling calls it. Without npm a wheel is built without a console, and a line says so. A release, which names its
repository in CHRONIK_REPOSITORY, fails instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackageWeb(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":  # an editable installation needs no copy; `make web` fetches for the clone
            return
        optional = [] if os.environ.get("CHRONIK_REPOSITORY") else ["--optional"]
        command = [sys.executable, str(Path(self.root, "tools/fetch_web.py")), "libraries", *optional]
        subprocess.run(command, check=True)
