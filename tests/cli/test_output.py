"""What people read: sizes, durations, times, tables; and the same rows as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.cli.cluster_status import COLUMNS as COLUMNS_OF_STATUS
from chronik.cli.output import EPOCH, Column, fit, human_bytes, human_duration, print_rows, time_text

COLUMNS = (Column("name", "NAME"), Column("size", "SIZE", human_bytes, is_number=True), Column("note", "NOTE"))
ROWS = [{"name": "a", "size": 10, "note": "[red]x"}, {"name": "longer", "size": 3 << 20, "note": None}]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (20 << 20, "20.0 MiB"),
        (150 << 30, "150 GiB"),
        (5 << 60, "5120.0 PiB"),
    ],
)
def test_sizes_have_units(size: int, text: str) -> None:
    """Digits are hard to count."""
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (4_230, "4.2s"),
        (59_999, "60.0s"),
        (200_000, "3m 20s"),
        (3_600_000, "1h"),
        (187_200_000, "2d 4h"),
    ],
)
def test_durations_have_two_units_at_most(duration_ms: int, text: str) -> None:
    """Two days and four hours is enough to know."""
    assert human_duration(duration_ms) == text


@given(st.integers(0, 253_402_300_799_999))
def test_times_carry_their_zone_and_lose_nothing(timestamp_ms: int) -> None:
    """Two readers in two countries see the same moment."""
    text = time_text(timestamp_ms)
    assert text is not None
    read = datetime.fromisoformat(text)
    assert read.tzinfo is not None
    assert (read - EPOCH) // timedelta(milliseconds=1) == timestamp_ms


def test_times_that_are_none_or_nonsense_do_not_break_a_command() -> None:
    """A record may carry any 64 bits."""
    assert time_text(-1) is None
    assert time_text(2**62) == str(2**62)


def test_a_table_is_aligned_and_shows_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets are data, not colours; a missing value is shown as nothing; no line ends in blanks."""
    print_rows(ROWS, COLUMNS, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "NAME       SIZE  NOTE",
        "a          10 B  [red]x",
        "longer  3.0 MiB  -",
    ]


def test_json_has_the_rows_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A program wants bytes, not MiB, and null, not a dash."""
    print_rows(ROWS, COLUMNS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_no_rows_are_an_empty_list_or_a_word_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe must stay parseable; a person must not wonder."""
    print_rows([], COLUMNS, as_json=True, empty="nothing there")
    assert capsys.readouterr().out.strip() == "[]"
    print_rows([], COLUMNS, as_json=False, empty="nothing there")
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "nothing there\n")


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_a_wide_table_is_not_cut_in_a_pipe(values: list[str]) -> None:
    """Whatever the width of some terminal is, a pipe gets whole values."""
    # Only printable characters: control characters and blanks would be counted differently.
    names = [re.sub(r"\W", "x", value) * 60 for value in values]
    rows = [{"name": name} for name in names]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_rows(rows, COLUMNS[:1], as_json=False)
    assert out.getvalue().splitlines()[1:] == names


class Terminal(io.StringIO):
    """A screen."""

    def isatty(self) -> bool:
        return True


def on_screen(rows: list[dict[str, object]], columns: tuple[Column, ...], width: int) -> tuple[list[str], str]:
    """The output on a terminal of that width, and the messages beside the table."""
    screen, beside = Terminal(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TERM", "xterm")
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(beside):
            print_rows(rows, columns, as_json=False, whole="--format csv")
    plain = re.sub("\033\\[[0-9;]*m", "", screen.getvalue())  # titles are bold
    return [line.rstrip() for line in plain.splitlines()], beside.getvalue()


NODES: list[dict[str, object]] = [
    {
        "node": 1,
        "role": "leader",
        "state": "the node is starting: it reads its logs or waits for the metadata quorum",
        "applied_index": 1_234_567,
        "lag_entries": 0,
        "lag_ms": 0,
        "reads_by_lease": True,
        "version": 1_234_567,
        "state_hash": "f7e26e4300112233445566778899aabb",
    },
    {"node": 2, "role": "voter", "state": "alive"},
]


SCREENS = {
    60: """\
NODE  ROLE    STATE              APPLIED  BEHIND  LAG  LEASE
   1  leader  the node is st…  1,234,567       0  0ms  yes
   2  voter   alive                    -       -    -  -
2 columns not shown (VERSION, STATE HASH): use --format csv""",
    80: """\
NODE  ROLE    STATE           APPLIED  BEHIND  LAG  LEASE    VERSION  STATE HASH
   1  leader  the node is…  1,234,567       0  0ms  yes    1,234,567  f7e26e43
   2  voter   alive                 -       -    -  -              -  -""",
    110: """\
NODE  ROLE    STATE                                         APPLIED  BEHIND  LAG  LEASE    VERSION  STATE HASH
   1  leader  the node is starting: it reads its logs o…  1,234,567       0  0ms  yes    1,234,567  f7e26e43
   2  voter   alive                                               -       -    -  -              -  -""",
}


@pytest.mark.parametrize("width", SCREENS)
def test_a_table_on_a_screen_shows_every_column_or_says_which_are_missing(width: int) -> None:
    """A column that is silently omitted would seem not to exist. Numbers are not truncated."""
    lines, beside = on_screen(NODES, COLUMNS_OF_STATUS, width)
    assert [*lines, *beside.splitlines()] == SCREENS[width].splitlines()


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 300), st.booleans()), min_size=1, max_size=12),
    st.integers(20, 200),
)
def test_columns_that_are_shown_fit_and_the_others_would_not(shapes: list[tuple[int, int, bool]], room: int) -> None:
    """Whatever the widths: never wider than the screen, no number cut, no text cut below its title or 8 characters."""
    columns = [Column(str(i), "T" * title, is_number=is_number) for i, (title, _, is_number) in enumerate(shapes)]
    needed = [max(title, wide) for title, wide, _ in shapes]
    widths = fit(needed, columns, room)
    assert 1 <= len(widths) <= len(columns)
    assert sum(widths) + 2 * (len(widths) - 1) <= room
    if len(widths) > 1:
        for width, need, column in zip(widths, needed, columns, strict=False):
            assert width == need if column.is_number else min(need, max(len(column.title), 8)) <= width <= need
    if sum(needed) + 2 * (len(needed) - 1) <= room:
        assert widths == needed


def test_values_cannot_take_over_the_terminal() -> None:
    """A record may hold escape sequences; shown as they are they would change colours or clear the screen."""
    lines, _ = on_screen([{"name": "\033[2Jgone\x07", "size": 1, "note": "wide 漢字"}], COLUMNS, 80)
    assert lines[1] == r"\x1b[2Jgone\x07   1 B  wide 漢字"
