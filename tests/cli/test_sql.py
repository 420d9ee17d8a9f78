"""`chronik sql` as users run it: three formats, exit codes, and messages about missing things."""

from __future__ import annotations

import csv
import io
from importlib import util
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Run

pytest.importorskip("duckdb")
pytest.importorskip("deltalake")

VALUES = """SELECT * FROM (VALUES (1, 'a,"b', NULL), (22, NULL, [1, 2])) AS t(id, text, list)"""


def test_an_answer_is_printed_for_people_and_for_programs(run_command: Run) -> None:
    """The same rows three times."""
    table = run_command("sql", VALUES)
    assert (table.exit_code, table.lines) == (0, ["id  text  list", ' 1  a,"b  -', "22  -     [1, 2]"])
    assert run_command("sql", VALUES, "--format", "json").json == [
        {"id": 1, "text": 'a,"b', "list": None},
        {"id": 22, "text": None, "list": [1, 2]},
    ]
    rows = list(csv.reader(io.StringIO(run_command("sql", VALUES, "--format", "csv").out)))
    assert rows == [["id", "text", "list"], ["1", 'a,"b', ""], ["22", "", "[1, 2]"]]


def test_no_rows_are_an_answer(run_command: Run) -> None:
    """And valid JSON."""
    assert run_command("sql", "SELECT 1 WHERE false", "--format", "json").json == []
    assert run_command("sql", "SELECT 1 WHERE false").err == "No rows.\n"


def test_a_long_query_draws_nothing_between_the_rows(run_command: Run) -> None:
    """DuckDB shows its progress on stdout, where only rows may be."""
    query = "SELECT current_setting('enable_progress_bar') AS bar"
    assert run_command("sql", query, "--format", "json").json == [{"bar": False}]


def test_two_columns_of_one_name_are_both_there(run_command: Run) -> None:
    """An object has each key once."""
    assert run_command("sql", "SELECT 1 AS a, 2 AS a", "--format", "json").json == [{"a": 1, "a_2": 2}]


def test_times_bytes_and_decimals_have_a_form_in_json(run_command: Run) -> None:
    """Exactly, where JSON can."""
    query = (
        "SELECT '2026-03-01 12:00:00+00'::timestamptz AS t, '\\xFFx'::blob AS b, 1.50::decimal(5,2) AS d, {'a': 1} AS s"
    )
    [row] = run_command("sql", query, "--format", "json").json
    assert (row["b"], row["d"], row["s"]) == ("\\xffx", "1.50", {"a": 1})
    assert row["t"].startswith("2026-03-01T")


def test_a_topic_is_asked_by_name(run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From the first record to the first question."""
    with Cluster() as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        assert run_command("topic", "create", "orders").exit_code == 0
        assert run_command("produce", "orders", stdin=b"one\ntwo\n").exit_code == 0
        question = "SELECT count(*) AS n, max(value) AS last FROM orders"
        counted = run_command("sql", question, "--format", "json", "--storage", str(tmp_path))
        assert counted.exit_code == 0, counted.err
        assert counted.json == [{"n": 2, "last": "two"}]
        wrong = run_command("sql", "SELECT * FROM oders", "--storage", str(tmp_path))
        assert (wrong.exit_code, "did you mean 'orders'?" in wrong.err) == (1, True)


def test_what_fails_has_its_exit_code_and_one_line(run_command: Run) -> None:
    """1 for the query, 2 for the command, 3 if no broker responds."""
    for words, exit_code in (
        (["DROP TABLE x"], 1),
        (["SELECT * FROM orders", "--bootstrap", "127.0.0.1:1"], 3),
        (["SELECT * FROM orders", "--bootstrap", "nowhere:x"], 2),
        (["SELECT 1", "--file", "x.sql"], 2),
        ([], 2),
    ):
        done = run_command("sql", *words)
        assert (done.exit_code, len(done.err.splitlines())) == (exit_code, 1), words


def test_a_mistake_is_marked_in_its_line(run_command: Run) -> None:
    """In a query of twenty lines the column matters."""
    for query, mark in (
        ("selec 1", ["LINE 1: selec 1", "        ^^^^^"]),
        ("SELECT 1,\n  nosuch(2)", ["LINE 2:   nosuch(2)", "          ^^^^^^^^^"]),
    ):
        done = run_command("sql", query)
        assert (done.exit_code, done.err.splitlines()[1:]) == (1, mark)


def test_a_query_needs_no_quotes(run_command: Run) -> None:
    """Where the shell leaves its words alone."""
    assert run_command("sql", "SELECT", "1", "AS", "one", "--format", "csv").lines == ["one", "1"]


def test_a_file_or_stdin_may_hold_several_statements(run_command: Run, tmp_path: Path) -> None:
    """They run in order; the first that fails ends it."""
    text = "SELECT 1 AS a; -- one; two\nSELECT ';' AS b"
    file = tmp_path / "two.sql"
    file.write_text(text)
    expected = ["a", "1", "b", ";"]
    assert run_command("sql", "--file", str(file), "--format", "csv").lines == expected
    assert run_command("sql", "--format", "csv", stdin=text.encode()).lines == expected
    failed = run_command("sql", "--format", "csv", stdin=b"SELECT 1 AS a; selec 2; SELECT 3 AS c")
    assert (failed.exit_code, failed.lines) == (1, ["a", "1"])
    assert run_command("sql", "--file", str(tmp_path / "none")).exit_code == 1


def test_show_tables_lists_topics_and_tables(run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first command that users of SQL type."""
    from deltalake import write_deltalake
    from pyarrow import table

    write_deltalake(str(tmp_path / "tables" / "sold"), table({"a": [1]}))
    with Cluster() as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        run_command("topic", "create", "orders")
        for words in ("SHOW TABLES", "show all tables ;"):
            shown = run_command("sql", words, "--storage", str(tmp_path), "--format", "csv")
            assert shown.lines == ["name,kind", "orders,topic", "sold,table"], shown.err
        assert "value" in run_command("sql", "DESCRIBE orders", "--storage", str(tmp_path)).out


def test_a_missing_extra_is_told_with_the_command_that_installs_it(
    run_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers are installed without it."""
    real = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "duckdb" else real(name))
    done = run_command("sql", "SELECT 1")
    assert (done.exit_code, "pip install 'chronik[sql]'" in done.err) == (1, True)


def test_a_value_that_is_not_json_is_refused_with_the_way_around_it(run_command: Run) -> None:
    """One bad record among a million must not prevent access to the others."""
    values = "FROM (VALUES ('{\"a\": 1}'), ('not json')) AS t(value)"
    done = run_command("sql", f"SELECT value->>'$.a' AS a {values}")
    assert (done.exit_code, "TRY(...)" in done.err) == (1, True), done.err
    assert run_command("sql", f"SELECT TRY(value->>'$.a') AS a {values}", "--format", "csv").lines == ["a", "1", '""']
    skipped = run_command("sql", f"SELECT value->>'$.a' AS a {values} WHERE json_valid(value)", "--format", "csv")
    assert skipped.lines == ["a", "1"]
