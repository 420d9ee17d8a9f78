"""Adds the files that tasks wrote to a table, once per batch.

Tasks write, the driver commits. Nothing here deletes a file: after an unclear outcome, such as a commit whose answer
was lost, a file may be part of the table, so `maintenance.vacuum` deletes orphans later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import create_table_with_add_actions

from chronik.pipeline.tables import deletions
from chronik.pipeline.tables.files import DataFile
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.schemas import check_partitioning, missing_columns
from chronik.pipeline.tables.transactions import BatchName, StartOver, commit_once


def append(
    place: Place,
    name: BatchName | None,
    files: Sequence[DataFile],
    schema: Schema,
    *,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
    replace: bool = False,
    notes: Mapping[str, str] | None = None,
) -> bool:
    """Commits the files; with `replace` they become the whole content. False if the batch was committed before.

    A batch without rows commits nothing, unless it creates the table, or empties a table that is replaced.
    """

    def attempt(table: DeltaTable | None, properties: CommitProperties) -> None:
        actions = [file.added(partition_by) for file in files]
        if table is None:
            create_table_with_add_actions(
                place.uri,
                schema,
                actions,
                mode="error",
                partition_by=list(partition_by),
                storage_options=dict(place.storage_options),
                commit_properties=properties,
            )
            return
        check_partitioning(place, table, partition_by)
        if added := missing_columns(place, table, schema, merge=merge_schema):
            # A separate commit: harmless without the rows, and a second run finds nothing to add.
            table.alter.add_columns(added, commit_properties=CommitProperties(max_commit_retries=0))
            raise StartOver(f"added {len(added)} columns")
        if not actions and not replace:
            return
        table.create_write_transaction(
            list(actions),
            "overwrite" if replace else "append",
            table.schema(),
            partition_by=list(partition_by),
            commit_properties=properties,
        )

    committed = commit_once(place, name, attempt, notes=notes)
    if replace:
        deletions.forget(place)
    return committed
