"""The location of a table: its address, its storage options, and its snapshots. Holds no handle, so it can be pickled.

A path without a scheme is a local path and is made absolute where the query starts, because Spark's workers may have
other working directories.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from chronik.pipeline.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow.fs


@dataclass(frozen=True, slots=True)
class Place:
    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, path: str, storage_options: Mapping[str, str] | None = None) -> Place:
        if path.startswith("file:"):
            path = "/" + path.removeprefix("file:").lstrip("/")
        return cls(path if "://" in path else os.path.abspath(path), dict(storage_options or {}))

    @property
    def is_local(self) -> bool:
        return "://" not in self.uri

    def find(self) -> DeltaTable | None:
        """The current table; None before its first commit."""
        if self.is_local and not os.path.isdir(os.path.join(self.uri, "_delta_log")):
            return None
        try:
            return DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except TableNotFoundError:
            return None

    def load(self) -> DeltaTable:
        table = self.find()
        if table is None:
            raise TableError("TABLE_NOT_FOUND", uri=self.uri)
        return table

    def load_as_of(self, *, version: int | None = None, timestamp: datetime | None = None) -> DeltaTable:
        """The table at a version or time; the newest if neither is given."""
        table = self.load()
        asked = version if version is not None else timestamp
        if asked is None:
            return table
        newest = table.version()
        try:
            table.load_as_version(asked)
        except DeltaError as error:
            named = f"version {version}" if version is not None else f"version of {timestamp}"
            reason = f"its newest is {newest}, and its log no longer holds the oldest ({error})"
            raise TableError("TABLE_VERSION_NOT_FOUND", uri=self.uri, asked=named, reason=reason) from error
        return table

    def filesystem(self) -> pyarrow.fs.PyFileSystem:
        """Paths are relative to the table. A file becomes visible when it is closed."""
        import pyarrow.fs
        from deltalake.fs import DeltaStorageHandler

        if self.is_local:
            os.makedirs(self.uri, exist_ok=True)
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))
