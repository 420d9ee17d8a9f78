"""Commands of pipelines on a machine without Spark: every one of them says what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.cli import sparking
from tests.cli.conftest import Run

pytest.importorskip("pyarrow")


@pytest.mark.parametrize("verb", ["status", "stop"])
def test_a_file_that_cannot_be_read_for_want_of_spark_is_no_fault_of_the_file(
    run_command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """These two start no Spark, but the file they read imports it."""
    file = tmp_path / "pipeline.py"
    file.write_text("import a_package_that_is_not_there\n")
    assert "FILE_FAILED" in run_command("pipeline", verb, str(file)).err
    monkeypatch.setattr(sparking, "find_spec", lambda name: None)
    done = run_command("pipeline", verb, str(file))
    assert (done.exit_code, "SPARK_MISSING" in done.err) == (1, True), done.err
