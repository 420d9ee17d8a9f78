"""A driver without Spark: python -m tests.pipeline.tables.batch_loop FOLDER BATCHES. It is there to be killed.

Does what Spark does with a sink, in Spark's order: note the batch's range, let tasks write, commit the table, note that
the batch is done. After a start it repeats the first batch that is not noted as done, with the range that was noted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.writing import Target
from tests.pipeline.tables.rows import batch_of

TASKS = 3
SPARK_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("id", "long"),
                ("value", "string"),
                ("_topic_id", "string"),
                ("_partition", "integer"),
                ("_offset", "long"),
                ("_timestamp", "timestamp"),
            )
        ],
    }
)


def rows_of(number: int) -> int:
    """Batches differ in size, so that a range that is not the noted one shows."""
    return 20 + number * 7 % 30


def main(folder: str, batches: str) -> None:
    place = Place.of(f"{folder}/table")
    notes = Path(folder, "notes")
    notes.mkdir(exist_ok=True)
    print("started", flush=True)
    start = 0
    for number in range(int(batches)):
        end = start + rows_of(number)
        if not (notes / f"done-{number}").exists():
            note(notes / f"range-{number}", f"{start}-{end}")
            target = Target.of(TableOptions(place, compact_above=9), SPARK_SCHEMA)
            outputs = [
                target.write([batch_of(range(start + task, end, TASKS))], f"b{number}-{task}") for task in range(TASKS)
            ]
            target.commit(outputs, BatchName("query", number))
            note(notes / f"done-{number}", "")
        start = end


def note(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
