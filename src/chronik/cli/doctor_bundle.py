"""The file that `chronik doctor --bundle` writes: what the doctor saw, for developers who cannot ask the
cluster.

A gzipped tar of JSON and text. It never holds a record, a password or any other value that a broker marks as sensitive.
It is written beside its place and renamed, so an interrupted command leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik import __version__
from chronik.cli.errors import CommandFailed
from chronik.client.admin.status import page_text

if TYPE_CHECKING:
    from chronik.client.doctor import Facts
    from chronik.client.routing import ClusterClient

METRICS_S = 5.0
FILE_MODE = 0o600


async def write_bundle(path: Path, cluster: ClusterClient, facts: Facts, document: Mapping[str, Any]) -> None:
    """Raises CommandFailed if the file cannot be written."""
    files = {
        "findings.json": _json(document),
        "facts.json": _json(_plain(facts)),
        "software.json": _json(
            {"chronik": __version__, "python": platform.python_version(), "os": platform.platform()}
        ),
        **{f"status-{node_id}.json": _json(_plain(each.page)) for node_id, each in facts.statuses.items()},
        **await _metrics(cluster, facts),
    }
    partial = path.with_name(path.name + ".partial")
    try:
        try:
            await asyncio.to_thread(_write, partial, files, facts.now_ms // 1000)
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as fault:
        raise CommandFailed(f"cannot write {path}: {fault.strerror or fault}") from fault


async def _metrics(cluster: ClusterClient, facts: Facts) -> dict[str, bytes]:
    if facts.quorum is None:
        return {}
    asked = list(facts.quorum.admin.items())
    texts = await asyncio.gather(*(page_text(cluster.network, at, "/metrics", METRICS_S) for _, at in asked))
    return {f"metrics-{node_id}.txt": text for (node_id, _), text in zip(asked, texts, strict=True) if text is not None}


def _write(path: Path, files: Mapping[str, bytes], modified_s: int) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"chronik-doctor/{name}")
            entry.size, entry.mtime, entry.mode = len(data), modified_s, FILE_MODE
            archive.addfile(entry, io.BytesIO(data))
    path.chmod(FILE_MODE)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _plain(value: object) -> Any:
    """As JSON has it: keys are texts, values are what can be read back."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain({each.name: getattr(value, each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool | None) else str(value)
