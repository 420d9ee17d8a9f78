"""The process that evaluates SQL conditions on records, so that DuckDB is neither in the console's memory nor its loop.

It reads requests from stdin and writes answers to stdout, each with its length in four bytes before it. It ends with
stdin. `pipeline.sql.filtering` locks DuckDB: no files, network, extensions, and bounded memory.
"""

from __future__ import annotations

import json
import pickle
import sys
from datetime import UTC, datetime
from typing import Any, Final

from chronik.console.parent import end_with_parent

CONDITIONS_MAX: Final = 4
YEAR_MAX_MS: Final = 253_402_300_799_000  # the last that a datetime holds


def row_of(topic: str, partition: int, given: tuple[int, int, bytes | None, bytes | None, Any]) -> dict[str, Any]:
    offset, timestamp, key, value, headers = given
    in_range = 0 <= timestamp <= YEAR_MAX_MS
    return {
        "_topic": topic,
        "_partition": partition,
        "_offset": offset,
        "_timestamp": datetime.fromtimestamp(timestamp / 1_000, UTC) if in_range else None,
        "key": text(key),
        "value": text(value),
        "_headers": {name: text(data) for name, data in headers},
    }


def text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def main() -> None:
    end_with_parent(int(sys.argv[1]))
    from chronik.pipeline.errors import PipelineError
    from chronik.pipeline.sql.filtering import Condition

    conditions: dict[str, Condition] = {}
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while len(head := stdin.read(4)) == 4:
        where, topic, rows = pickle.loads(stdin.read(int.from_bytes(head, "big")))  # noqa: S301 - of our own parent
        try:
            condition = conditions.get(where)
            if condition is None:
                if len(conditions) >= CONDITIONS_MAX:
                    conditions.pop(next(iter(conditions))).close()
                condition = conditions[where] = Condition(where)
            shown = [row_of(topic, partition, record) for partition, record in rows]
            answer: dict[str, Any] = {"places": condition.matching(shown) if shown else []}
        except PipelineError as fault:
            answer = {"error": str(fault)}
        data = json.dumps(answer).encode()
        stdout.write(len(data).to_bytes(4, "big") + data)
        stdout.flush()


if __name__ == "__main__":
    main()
