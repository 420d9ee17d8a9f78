"""How records look on a screen."""

from __future__ import annotations

from chronik.cli.records import visible_bytes


def test_a_screen_shows_what_it_would_obey_as_escapes() -> None:
    """Records come from anywhere; a pipe still gets every byte."""
    assert visible_bytes(b"k\t\x1b[2Jgone\x07 \xff \xc3\xa4\n") == r"k	\x1b[2Jgone\x07 \xff ä".encode() + b"\n"
    assert visible_bytes(b"plain\tline\n") == b"plain\tline\n"
    assert visible_bytes(b"\xff\n") == rb"\xff" + b"\n"
