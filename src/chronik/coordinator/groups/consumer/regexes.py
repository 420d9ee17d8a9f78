"""Resolves the regular expressions of subscriptions without blocking the event loop.

The coordinator resolves an expression once for all of its subscribers, in slices of topics, so that other work can run
in between. The result is a record. It raises the group epoch only if the topics have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from chronik.coordinator.groups.consumer import records
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.shard import CoordinatorRecord
from chronik.metadata.image import Image
from chronik.runtime.client_patterns import InvalidPattern, compile_pattern
from chronik.wire.error_codes import ErrorCode

REFRESH_INTERVAL_MS_MIN: Final = 10_000  # minimum time between two resolutions of a group's expressions
REFRESH_INTERVAL_MS: Final = 600_000  # after this time, expressions are resolved again even without a known change
NAMES_PER_SLICE: Final = 2_000

# Returns the topics among these that the member may see.
Visible = Callable[[Collection[str]], Collection[str]]


def require_expression(pattern: str) -> None:
    try:
        compile_pattern(pattern)
    except InvalidPattern as fault:
        refuse(ErrorCode.INVALID_REGULAR_EXPRESSION, str(fault))


def is_due(group: ConsumerGroup, expressions: Collection[str], newest_topic_version: int, now_ms: int) -> bool:
    """Whether the group's expressions must be resolved, for the first time or again."""
    if not expressions:
        return False
    last = next(iter(group.resolved.values()), None)
    if last is None:
        return True
    if last.resolved_at_ms <= now_ms <= last.resolved_at_ms + REFRESH_INTERVAL_MS_MIN:
        return False
    return (
        now_ms < last.resolved_at_ms  # the clock was set back
        or not group.resolved.keys() >= set(expressions)
        or last.version < newest_topic_version
        or now_ms > last.resolved_at_ms + REFRESH_INTERVAL_MS
    )


class Resolution:
    """Matches one group's expressions against the topics of one image, slice by slice."""

    def __init__(self, expressions: Collection[str], image: Image, visible: Visible, now_ms: int) -> None:
        self.version = image.version
        self.begun_at_ms = now_ms
        self.matches: dict[str, set[str]] = {}
        self._patterns: list[tuple[Callable[[str], bool], set[str]]] = []
        for expression in sorted(expressions):
            found = self.matches[expression] = set()
            try:
                self._patterns.append((compile_pattern(expression), found))
            except InvalidPattern:
                continue  # written by a release with another syntax: it matches nothing here
        self._names: Iterator[str] = iter(image.topics_by_name.keys())
        self._visible = visible

    def go_on(self) -> bool:
        """Matches one slice. Returns False when done."""
        budget = max(1, NAMES_PER_SLICE // max(1, len(self._patterns)))
        seen = 0
        found: set[str] = set()
        for name in self._names:
            seen += 1
            for matches, into in self._patterns:
                if matches(name):
                    into.add(name)
                    found.add(name)
            if seen == budget:
                break
        if found:
            hidden = found.difference(self._visible(found))
            for _, into in self._patterns if hidden else ():
                into -= hidden
        return seen == budget


def resolved(group: ConsumerGroup, resolution: Resolution, topics: Topics) -> list[CoordinatorRecord]:
    """The records of a completed resolution."""
    written = []
    changed = False
    after = {key: each.topics for key, each in group.resolved.items()}
    for expression, found in resolution.matches.items():
        if expression not in group.regexes:
            continue  # it has no subscribers left
        matched = frozenset(found)
        changed = changed or matched != after.get(expression, frozenset())
        after[expression] = matched
        written.append(
            records.regex_record(group.group_id, expression, matched, resolution.version, resolution.begun_at_ms)
        )
    names = set().union(*(each.topics for each in group.members.values()), *after.values())
    metadata_hash = topics.hash_of(names)
    if changed or (written and metadata_hash != group.metadata_hash):
        written.append(records.epoch_record(group.group_id, group.epoch + 1, metadata_hash))
    return written
