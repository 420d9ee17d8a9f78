"""The one way a batch enters a table: once.

A batch is named by (application, number). The name is part of the commit, and a Delta log keeps the highest number per
application, so "is it there?" and "put it there" are answered by the same log. The rule, for append and upsert alike:

1. load the table; if it holds this number or a later one, the batch is there: do nothing;
2. commit with the name, never letting the library try again by itself: it would not ask question 1 again;
3. when another writer came first, start over at 1.

So a driver that dies before 2 leaves files that nobody sees, one that dies after 2 finds the batch at 1, and of two
drivers with the same batch exactly one commits. Numbers of one application must not go back: Spark's batch ids do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.exclusion import committing
from chronik.pipeline.tables.place import Place
from chronik.runtime.invariants import check

# Every refusal means that somebody else's commit went through, so the table as a whole always moves on. The bound ends
# a fault that only looks like a conflict.
ATTEMPTS_MAX: Final = 50
APPLICATION_KEY: Final = "chronik.application"
BATCH_KEY: Final = "chronik.batch"
NOTED_WITHIN: Final = 20  # commits; between two results there are only those that compact


@dataclass(frozen=True, slots=True)
class BatchName:
    """Who writes, and the how-manieth batch this is."""

    application: str
    number: int

    def is_in(self, table: DeltaTable) -> bool:
        check(self.number >= 0, "19 batches are numbered from 0", application=self.application, number=self.number)
        newest = table.transaction_version(self.application)
        return newest is not None and newest >= self.number


class StartOver(Exception):
    """Raised by an attempt that changed the table and must see it anew before it commits the batch."""


Attempt = Callable[[DeltaTable | None, CommitProperties], None]


def commit_once(
    place: Place, name: BatchName | None, attempt: Attempt, *, notes: Mapping[str, str] | None = None
) -> bool:
    """Runs `attempt` until it commits. False when the batch was in the table already, and nothing was done.

    `attempt` gets the table as it is, or None when it must create it, and the properties of its single commit. A batch
    without a name cannot be recognised and is written each time it is asked for. `notes` are kept with the commit.
    """
    refusal: Exception | None = None
    for _ in range(ATTEMPTS_MAX):
        table = None
        try:
            with committing(place):
                table = place.find()
                if name is not None and table is not None and name.is_in(table):
                    return False
                attempt(table, _properties(name, notes or {}))
        except (CommitFailedError, StartOver) as error:
            refusal = error
        except DeltaError as error:
            # Creating a table that has appeared meanwhile is refused in the same words as other faults.
            if table is not None or place.find() is None:
                raise
            refusal = error
        else:
            return True
    raise TableError(
        "TABLE_CONTENDED",
        uri=place.uri,
        batch=name.number if name else "?",
        application=name.application if name else "?",
        attempts=ATTEMPTS_MAX,
        reason=str(refusal),
    )


def newest_note(table: DeltaTable, key: str) -> str | None:
    """The note of the newest commit that has one under this key; None when there is none in the last commits."""
    for commit in table.history(NOTED_WITHIN):
        if key in commit:
            return str(commit[key])
    return None


def _properties(name: BatchName | None, notes: Mapping[str, str]) -> CommitProperties:
    if name is None:
        return CommitProperties(custom_metadata=dict(notes), max_commit_retries=0)
    return CommitProperties(
        custom_metadata={APPLICATION_KEY: name.application, BATCH_KEY: str(name.number), **notes},
        max_commit_retries=0,
        app_transactions=[Transaction(name.application, name.number)],
    )
