"""Tests of SQL need the extra `sql`; `make test` installs it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if any(find_spec(package) is None for package in ("duckdb", "pyarrow", "deltalake")):
    collect_ignore_glob += ["test_*.py"]
