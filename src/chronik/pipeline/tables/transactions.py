"""The only way to commit a batch to a table: exactly once.

A batch is named by (application, number). The name is part of the commit, and a Delta log keeps the highest number per
application, so the same log answers "is it committed?" and commits it. The rule, for append and upsert alike:

1. load the table; if it has this number or a higher one, the batch is committed: do nothing;
2. commit with the name, without the library's own retries: they would not repeat step 1;
3. if another writer came first, start over at 1.

So a driver that dies before 2 leaves files that no reader sees, one that dies after 2 finds the batch at 1, and of two
drivers with the same batch exactly one commits. Numbers of one application must not decrease: Spark's batch ids do not.
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

# Every conflict means that another commit succeeded, so the table as a whole makes progress. The bound stops a fault
# that only looks like a conflict.
ATTEMPTS_MAX: Final = 50
APPLICATION_KEY: Final = "chronik.application"
BATCH_KEY: Final = "chronik.batch"
NOTED_WITHIN: Final = 20  # commits; only compactions come between two results


@dataclass(frozen=True, slots=True)
class BatchName:
    """The writer, and the number of its batch."""

    application: str
    number: int

    def is_in(self, table: DeltaTable) -> bool:
        check(self.number >= 0, "19 batches are numbered from 0", application=self.application, number=self.number)
        newest = table.transaction_version(self.application)
        return newest is not None and newest >= self.number


class StartOver(Exception):
    """Raised by an attempt that changed the table and must reload it before it commits the batch."""


Attempt = Callable[[DeltaTable | None, CommitProperties], None]


def commit_once(
    place: Place, name: BatchName | None, attempt: Attempt, *, notes: Mapping[str, str] | None = None
) -> bool:
    """Runs `attempt` until it commits. False if the batch was committed before, and nothing was done.

    `attempt` gets the current table, or None if it must create it, and the properties of its single commit. A batch
    without a name cannot be recognised and is written each time. `notes` are stored with the commit.
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
            # Creating a table that another writer created meanwhile fails with an unspecific message.
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
    """The note of the newest commit that has one under this key; None if no recent commit has one."""
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
