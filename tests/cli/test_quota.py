"""`chronik quota` against Chronik and against a real Kafka: set, listed, removed, and refused with advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from chronik.cli.errors import Misused
from chronik.cli.quota import parse_amount
from tests.cli.conftest import Run

Unique = Callable[[str], str]
ATTEMPTS_MAX = 50


def listed(chronik: Run, user: str, expected: Sequence[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The user's quotas. A broker of Kafka learns of a change later than its controller, so the query is repeated."""
    for _ in range(ATTEMPTS_MAX):
        rows = [row for row in chronik("quota", "list", "--format", "json").json if row.get("user") == user]
        found: list[tuple[object, ...]] = [(row.get("client_id"), row["quota"], row["limit"]) for row in rows]
        if found == expected:
            break
    return found


def test_quotas_are_set_listed_and_removed(chronik: Run, unique: Unique) -> None:
    user = unique("alice")
    of_user = ("--user", user)
    assert chronik("quota", "set", *of_user, "producer_byte_rate=10MB", "request_percentage=50%").exit_code == 0
    both = chronik("quota", "set", *of_user, "--client-id", "default", "consumer_byte_rate=1KiB")
    assert both.out == f"user '{user}', default client-id: changed\n"
    expected = [
        (None, "producer_byte_rate", 10_000_000),
        (None, "request_percentage", 50),
        ("default", "consumer_byte_rate", 1024),
    ]
    assert listed(chronik, user, expected) == expected
    assert chronik("quota", "unset", *of_user, "producer_byte_rate", "request_percentage").exit_code == 0
    assert chronik("quota", "unset", *of_user, "--client-id", "default", "consumer_byte_rate").exit_code == 0
    assert listed(chronik, user, []) == []


def test_a_check_changes_nothing(chronik: Run, unique: Unique) -> None:
    done = chronik("quota", "set", "--user", unique("bob"), "producer_byte_rate=1", "--validate-only")
    assert done.out.endswith(": valid, nothing was changed\n")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["producer_byte_rate=1"], "whose quota? Give --user"),
        (["--user", "u", "--ip", "10.0.0.1", "producer_byte_rate=1"], "--ip cannot be combined"),
        (["--user", "u"], "nothing to set: write key=value"),
        (["--user", "u", "producer_byte_rat=1"], "did you mean 'producer_byte_rate'?"),
        (["--user", "u", "speed=1"], "use one of producer_byte_rate"),
        (["--user", "u", "producer_byte_rate=fast"], "write a number"),
    ],
)
def test_a_wrong_command_line_is_told_what_to_do(run_command: Run, words: list[str], advice: str) -> None:
    done = run_command("quota", "set", *words)
    assert (done.exit_code, advice in done.err) == (2, True)


def test_what_the_cluster_refuses_is_said(chronik: Run, unique: Unique) -> None:
    done = chronik("quota", "set", "--user", unique("carol"), "producer_byte_rate=0")
    assert done.exit_code == 1
    assert "INVALID_REQUEST" in done.err


@pytest.mark.parametrize(
    ("text", "amount"), [("10", 10), ("10MB", 10**7), ("512KiB", 2**19), ("1.5k", 1500), ("50%", 50), ("2GiB/s", 2**31)]
)
def test_amounts_are_read_as_people_write_them(text: str, amount: float) -> None:
    assert parse_amount("k", text) == amount


def test_an_amount_is_not_negative() -> None:
    with pytest.raises(Misused):
        parse_amount("k", "-1")
