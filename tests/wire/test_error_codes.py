"""Kafka's error codes: the numbers and hints that clients act on."""

import subprocess

import pytest

from chronik.wire.error_codes import ErrorCode
from tests.wire.jvm import run_java

# The errors that the Java client retries, by number; a wrong entry makes clients give up, or retry forever.
RETRIABLE = {
    2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89, 100, 103, 106,
    122, 123, 133,
}  # fmt: skip


def test_every_number_from_minus_one_to_133_has_a_name():
    """The numbers go onto the wire: a gap would be a code that we cannot say, or not understand."""
    assert [int(code) for code in ErrorCode] == list(range(-1, 134))


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (2, "CORRUPT_MESSAGE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (10, "MESSAGE_TOO_LARGE"),
        (15, "COORDINATOR_NOT_AVAILABLE"),
        (32, "INVALID_TIMESTAMP"),
        (41, "NOT_CONTROLLER"),
        (42, "INVALID_REQUEST"),
        (76, "UNSUPPORTED_COMPRESSION_TYPE"),
        (87, "INVALID_RECORD"),
        (100, "UNKNOWN_TOPIC_ID"),
        (133, "SHARE_SESSION_LIMIT_REACHED"),
    ],
)
def test_a_code_has_the_number_that_kafka_gave_it(code: int, name: str):
    """Literal pairs, so that a line put in at the wrong place shows."""
    assert ErrorCode[name] == code
    assert ErrorCode.of(code).name == name


def test_retriable_codes_are_those_of_the_java_client():
    """Our client and the broker's own retries go by this."""
    assert {int(code) for code in ErrorCode if code.retriable} == RETRIABLE


def test_a_code_that_asks_for_new_metadata_is_retriable():
    """Fetching metadata makes sense only for a request that is sent again."""
    assert all(code.retriable for code in ErrorCode if code.refreshes_metadata)


def test_a_code_of_a_newer_kafka_is_an_unknown_server_error():
    """A client must survive a number that it does not know."""
    assert ErrorCode.of(32_000) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.of(-2) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_every_code_says_something_of_its_own():
    """People read these in logs, so two codes must not share a text, and none may be empty."""
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)
    assert all(0 < len(code.message) <= 100 for code in ErrorCode)


@pytest.mark.java
def test_codes_names_and_hints_are_those_of_kafka_clients():
    """The table was written by hand; this is the list it was written from."""
    listed = run_java("ListErrors.java", "")
    ours = [f"{int(c)} {c.name} {str(c.retriable).lower()} {str(c.refreshes_metadata).lower()}" for c in ErrorCode]
    assert listed.splitlines() == ours


@pytest.mark.java
def test_a_failing_java_program_is_not_taken_for_an_empty_answer():
    """The helper must raise: a comparison with nothing would pass."""
    with pytest.raises(subprocess.CalledProcessError):
        run_java("NoSuchProgram.java", "")
