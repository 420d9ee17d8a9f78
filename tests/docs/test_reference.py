"""The generated pages of the reference are up to date and complete; hand-written ones agree with the code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from cyclopts import App

import error_cures
import log_line_words
import log_lines
import reference_pages
from chronik.broker import admin
from chronik.broker.settings.document import document
from chronik.cli import errors, session
from chronik.cli.main import app
from chronik.runtime import alarms
from chronik.wire.error_codes import ErrorCode
from tests.house.repository import ROOT

REFERENCE = ROOT / "docs/reference"


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """`make docs` writes it."""
    assert (REFERENCE / name).read_text("utf-8") == reference_pages.PAGES[name]()


def commands(program: App, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    yield words, program
    for name in program:
        if not name.startswith("-"):
            yield from commands(program[name], (*words, name))


def test_every_option_is_in_the_section_of_its_command() -> None:
    """But for negative forms, which cyclopts lists here and no command line accepts."""
    sections = (REFERENCE / "cli.md").read_text("utf-8").split("# chronik ")
    by_command = {section.partition("\n")[0]: section for section in sections}
    count = 0
    for words, command in commands(app):
        for argument in command.assemble_argument_collection() if command.default_command else ():
            for name in argument.names:
                if name.startswith("-") and not name.startswith(("--no-", "--empty-")):
                    assert re.search(rf"{name}(?![\w-])", by_command[" ".join(words)]), (words, name)
                    count += 1
    assert count >= 500


def test_every_log_line_has_words_and_all_words_have_a_line() -> None:
    """For a new line, write its meaning and the action to take into tools/log_line_words.py, and run `make docs`."""
    lines = log_lines.lines()
    found = {(line.logger, line.text) for line in lines}
    described = {(logger, text) for logger, texts in log_line_words.WORDS.items() for text in texts}
    assert found - described == set(), "log lines without an entry"
    assert described - found == set(), "entries without a log line"
    assert len(found) >= 90
    for line, levels in lines.items():
        assert not levels & {"ERROR", "CRITICAL"} or log_line_words.WORDS[line.logger][line.text][1], line
    assert set(log_line_words.ALARMS) == set(alarms.CAUSES)


def test_causes_are_of_errors_that_exist() -> None:
    """The other direction, that every code and condition is on the page, follows from how it is made."""
    assert set(error_cures.CAUSES) <= {code.name for code in ErrorCode}
    assert set(error_cures.PIPELINE_KINDS) == set(reference_pages.CONDITIONS)


def test_causes_name_only_keys_and_commands_that_exist() -> None:
    """Advice that cannot be followed is worse than none."""
    known = set(re.findall(r"`([a-z][a-z0-9.-]+)`", document()))
    clients_own = {"security.protocol", "session.timeout.ms", "partition.assignment.strategy", "group.instance.id"}
    for text in error_cures.CAUSES.values():
        keys = set(re.findall(r"`([a-z]+(?:[.][a-z]+)+)`", text))
        assert keys <= known | clients_own, text


def test_the_page_of_http_endpoints_names_all_of_them() -> None:
    page = (REFERENCE / "http.md").read_text("utf-8")
    for path in ("/metrics", "/healthz", "/readyz", "/status"):
        assert f"| `{path}` |" in page
    assert {int(code) for code in re.findall(r"^\| (\d{3}) \|", page, re.MULTILINE)} == set(admin.REASONS) - {200, 503}
    assert f"At most {admin.CONNECTIONS_MAX} connections" in page
    assert f"larger than {admin.HEAD_BYTES_MAX // 1024} KiB" in page


def test_the_page_of_exit_codes_has_those_of_the_commands() -> None:
    page = (REFERENCE / "exit-codes.md").read_text("utf-8")
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    kinds = (errors.CommandFailed, errors.Misused, errors.NoBroker)
    assert codes == {session.DONE, session.INTERRUPTED, *(each.exit_code for each in kinds)}


def test_the_guide_to_sizing_quotes_the_benchmarks() -> None:
    """After new benchmarks, copy their figures into the guide."""
    guide = (ROOT / "docs/how-to/size.md").read_text("utf-8")
    measured = "".join((ROOT / f"docs/benchmarks/{name}.md").read_text("utf-8") for name in ("broker", "broker-3"))
    quoted = re.findall(r"^\| (?:produce|consume|CPU|memory).* \| ([\d.,]+)[^|]* \|$", guide, re.MULTILINE)
    quoted += re.findall(r"([\d.,]+) topics per second", guide) + re.findall(r"create ([\d,]+)\.", guide)
    assert len(quoted) >= 9
    assert [figure for figure in quoted if figure not in measured] == []
