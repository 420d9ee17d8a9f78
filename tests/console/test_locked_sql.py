"""What a query that a stranger wrote can reach: topics and tables of the storage folder, and nothing of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("deltalake")

from chronik.console.query_process import MEMORY
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.sql.relations import Catalog
from chronik.pipeline.sql.running import QueryResult


class NoCluster:
    """Has no topics, and must not be asked for anything else."""

    def topics(self, names: object) -> dict[str, object]:
        return {}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setattr("chronik.pipeline.sql.relations._knock", lambda bootstrap, security: None)
    return Catalog(NoCluster(), "127.0.0.1:1", str(tmp_path), only_named=True)  # type: ignore[arg-type]


def asked(catalog: Catalog, query: str) -> list[tuple[object, ...]]:
    with QueryResult.to(query, catalog, locked={"memory_limit": MEMORY, "threads": "1"}) as answer:
        return list(answer.rows())


def test_a_query_that_needs_nothing_is_answered(catalog: Catalog) -> None:
    assert asked(catalog, "SELECT sum(range)::INT FROM range(10)") == [(45,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM read_parquet('/etc/passwd')",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM '/etc/passwd.csv'",
        "SELECT * FROM 'http://127.0.0.1/x.parquet'",
        'SELECT * FROM "../../etc"',
        'SELECT * FROM "/tmp"',
        "COPY (SELECT 1) TO '/tmp/chronik-must-not-exist'",
        "ATTACH '/tmp/chronik-must-not-exist.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA memory_limit='1TB'",
        "CREATE TABLE t AS SELECT 1",
        "CALL pragma_version()",
        "EXPORT DATABASE '/tmp/chronik-must-not-exist'",
        "SELECT 1; SELECT 2",
        "SELECT getenv('HOME') FROM read_text('/proc/self/environ')",
    ],
)
def test_the_machine_is_out_of_reach(catalog: Catalog, query: str) -> None:
    with pytest.raises(PipelineError):
        asked(catalog, query)
    assert not list(Path("/tmp").glob("chronik-must-not-exist*"))


def test_memory_is_bounded(catalog: Catalog) -> None:
    with pytest.raises(PipelineError, match=r"(?i)memory"):
        asked(catalog, "SELECT list(range) FROM range(300000000)")


def test_the_bound_cannot_be_lifted_from_inside(catalog: Catalog) -> None:
    assert asked(catalog, "SELECT current_setting('lock_configuration')::BOOL") == [(True,)]
