"""Jars that only tests of clients need, from the machine's Maven, once per cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fetch_jars import PLUGIN
from tests.clients.built import built, run


def maven_jar(artifact: str, sha256: str) -> Path:
    """`artifact` is group:name:version, or group:name:version:jar:classifier."""
    _, name, version, *more = artifact.split(":")
    folder_name = "-".join((name, version, *more[1:]))

    def fetch(folder: Path) -> None:
        command = ["mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums", f"{PLUGIN}:copy"]
        run([*command, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], cwd=folder)
        found = hashlib.sha256((folder / f"{folder_name}.jar").read_bytes()).hexdigest()
        assert found == sha256, f"Maven fetched another {folder_name}.jar, with sha256 {found}"

    return built(folder_name, [], sha256, fetch) / f"{folder_name}.jar"
