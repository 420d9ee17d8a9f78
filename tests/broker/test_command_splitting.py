"""Many things for the controller: each command is bounded, and nothing is lost, doubled or separated."""

from __future__ import annotations

from chronik.broker.command_splitting import PER_COMMAND, some_at_a_time


def test_few_things_are_one_command_as_they_were_given() -> None:
    assert some_at_a_time(["b", "a", "b"], str) == [["b", "a", "b"]]
    assert some_at_a_time([], str) == [[]]


def test_many_things_are_several_commands() -> None:
    names = [str(n) for n in range(3 * PER_COMMAND + 1)]
    parts = some_at_a_time(names, str)
    assert [len(part) for part in parts] == [PER_COMMAND] * 3 + [1]
    assert [name for part in parts for name in part] == names


def test_what_is_named_twice_stays_together() -> None:
    """The controller refuses both, which it can only if it sees both."""
    names = [str(n) for n in range(PER_COMMAND)] * 2
    parts = some_at_a_time(names, str)
    assert all(len(set(part)) * 2 == len(part) for part in parts)
    assert sum(map(len, parts)) == len(names)
