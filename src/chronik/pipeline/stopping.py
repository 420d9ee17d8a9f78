"""Stops a run from another terminal, by a marker in the storage, which both can access."""

from __future__ import annotations

from pathlib import Path


class StopMark:
    def __init__(self, storage: str | Path, pipeline: str) -> None:
        self._path = Path(storage) / "stop" / pipeline

    def set(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.touch()

    def clear(self) -> None:
        """A run begins: removes markers of earlier runs."""
        self._path.unlink(missing_ok=True)

    def is_set(self) -> bool:
        return self._path.exists()
