"""Plain technical English, as far as a list of phrases can tell: documents, help, messages, openings of modules."""

from __future__ import annotations

import pytest

from tests.house import wording

ODD = [
    ("show the newest so many", "N"),
    ("it votes no more", "no longer votes"),
    ("the topic is no\nmore there", "no longer"),
    ("what is left out is the default", "omitted"),
    ("whoever asks gets it", "name the reader"),
    ("those that are behind wait", "name them"),
    ("how many partitions it is to have", "must"),
    ("the command makes no sense", "invalid"),
    ("computed anew", "again"),
    ("moves were called off", "cancel"),
]
PLAIN = [
    "Show the newest N records.",
    "no more than ten",
    "Consumers that are catching up get smaller responses.",
    "a user who logs in",
    "The node no longer votes.",
]


@pytest.mark.parametrize(("text", "better"), ODD)
def test_an_odd_phrase_is_noticed_and_a_better_one_named(text: str, better: str) -> None:
    assert any(better in complaint for _, complaint in wording.complaints(text)), text


@pytest.mark.parametrize("text", PLAIN)
def test_plain_sentences_pass(text: str) -> None:
    """A rule that complains about good English would be switched off."""
    assert list(wording.complaints(text)) == []


def test_messages_and_openings_are_found() -> None:
    source = '''"""First line.

Not this one: so many.
"""
raise ValueError(f"so many {x}")
log.warning("votes no more")
value = "so many"
'''
    assert wording.first_paragraph(source) == "First line."
    assert [text for _, text in wording.spoken(source)] == ["so many ", "votes no more"]


REMARKS = [
    ("Whoever waits for it gets the error.", "the caller"),
    ("those who wait", "name them"),
    ("a node to whom it was sent", "name them"),
    ("the index is made\nanew", "again"),
    ("Runs for ever.", "until cancelled"),
    ("Goes on for so many pieces.", "this many"),
    ("the session counts no more", "no longer"),
    ("what is to be sent", "must"),
    ("it would wait in vain", "without success"),
    ("damaged records were mended", "repair"),
]
PLAIN_REMARKS = [
    "with so many partitions that each request is expensive",
    "a node holds no more memory than its budget",
    "It does no more of it; no more than ten are allowed.",
    "a user who logs in",
    "Those that lag are removed.",
    "lists recommended values and the amended ones",
]


@pytest.mark.parametrize(("text", "better"), REMARKS)
def test_an_odd_phrase_in_a_docstring_or_a_comment_is_noticed(text: str, better: str) -> None:
    assert any(better in complaint for _, complaint in wording.remark_complaints(text)), text


@pytest.mark.parametrize("text", PLAIN_REMARKS)
def test_plain_docstrings_and_comments_pass(text: str) -> None:
    assert list(wording.remark_complaints(text)) == []


def test_docstrings_and_comments_are_found() -> None:
    """A phrase may cross the end of a comment's line. A string that is not a docstring is data."""
    source = '''"""Module."""
class A:
    """Class."""
    x = "whoever"  # beside code
    # runs for
    # ever
    def f(self):
        """Function."""
        # alone
'''
    assert dict(wording.remarks(source)) == {
        1: "Module.",
        3: "Class.",
        8: "Function.",
        4: "beside code\nruns for\never",
        9: "alone",
    }


def test_docstrings_and_comments_are_in_plain_words() -> None:
    assert [f"{place}:{line}: {complaint}" for place, line, complaint in wording.everything_remarked()] == []


def test_everything_that_people_read_is_in_plain_words() -> None:
    """`python -m tests.house.wording` prints this list. Help texts are checked on docs/reference/cli.md."""
    assert [f"{place}:{line}: {complaint}" for place, line, complaint in wording.everything_read()] == []
