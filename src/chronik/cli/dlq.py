"""`chronik dlq`: look at dead letters, and send them through their pipeline again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, human_count, print_rows, time_text
from chronik.cli.session import DEFAULTS, DONE, Options
from chronik.cli.sparking import STORAGE, Storage, cluster_of, fails_clearly

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

app = App(
    name="dlq",
    help="""\
Show dead letters, and replay them through their pipeline.

Records that a pipeline could not process are in the topic NAME.dlq, unchanged, with headers that say why.

For example:
  chronik dlq show orders
  chronik dlq show orders --summary
  chronik dlq replay shop/pipeline.py --with fix.py""",
)

LETTER_COLUMNS = (
    Column("flow", "FLOW"),
    Column("partition", "PARTITION", is_number=True),
    Column("offset", "OFFSET", human_count, is_number=True),
    Column("time", "TIME"),
    Column("error", "ERROR"),
    Column("message", "MESSAGE"),
)
SUMMARY_COLUMNS = (
    Column("pipeline", "PIPELINE"),
    Column("flow", "FLOW"),
    Column("error", "ERROR"),
    Column("count", "LETTERS", human_count, is_number=True),
)


@app.command
@fails_clearly
def show(topic: str, *, count: int = 20, summary: bool = False, options: Options = DEFAULTS) -> int:
    """Show dead letters of a topic: where each record stood, and what is wrong with it. Needs no Spark.

    For example:
      chronik dlq show orders
      chronik dlq show orders --summary
      chronik dlq show orders --format json | jq -r '.[].value'

    Parameters
    ----------
    topic
        The topic, or its dead letters: orders and orders.dlq are the same here.
    count
        Show the newest N; default: 20.
    summary
        Show how many there are of each kind instead.
    """
    from chronik.pipeline.flows import DLQ_SUFFIX
    from chronik.pipeline.letters import Letter, letter_of

    name = topic if topic.endswith(DLQ_SUFFIX) else f"{topic}{DLQ_SUFFIX}"
    cluster = cluster_of(options)
    known = cluster.topics()
    if name not in known:
        letters = [each for each in known if each.endswith(DLQ_SUFFIX)]
        raise CommandFailed(f"topic {topic!r} has no dead letters: there is no {name}{did_you_mean(name, letters)}")
    found: list[Letter] = []

    def take(at: TopicPartition, record: Record) -> None:
        letter = letter_of(record)
        if letter is not None:
            found.append(letter)

    cluster.read(name, take)
    if summary:
        counts: dict[tuple[str, str, str], int] = {}
        for letter in found:
            kind = (letter.pipeline, letter.flow, letter.error)
            counts[kind] = counts.get(kind, 0) + 1
        rows: list[dict[str, Any]] = [
            {"pipeline": pipeline, "flow": flow, "error": error, "count": number}
            for (pipeline, flow, error), number in sorted(counts.items())
        ]
        print_rows(rows, SUMMARY_COLUMNS, as_json=options.wants_json, empty="There are no dead letters.")
        return DONE
    found.sort(key=lambda letter: (letter.timestamp_ms, letter.partition, letter.offset))
    rows = [_told(letter) for letter in found[-count:]]
    print_rows(rows, LETTER_COLUMNS, as_json=options.wants_json, empty="There are no dead letters.")
    return DONE


@app.command
def replay(
    file: Path,
    flow: str | None = None,
    *,
    fix: Annotated[Path | None, Parameter(name="--with")] = None,
    storage: Storage = STORAGE,
    master: Annotated[str | None, Parameter(env_var="SPARK_MASTER")] = None,
    options: Options = DEFAULTS,
) -> int:
    """Send dead letters through their pipeline again. What its table has already is not added again.

    For example:
      chronik dlq replay shop/pipeline.py
      chronik dlq replay shop/pipeline.py orders --with fix.py

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    flow
        Only letters of this flow.
    fix
        A file with `def fix(letter)`, which returns the letter, changed or not, or None to leave it dead.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master; default: local[2].
    """
    from chronik.cli.pipeline import replay_letters

    return fails_clearly(replay_letters)(file, flow, fix, storage, master, options)


def _told(letter: Any) -> dict[str, Any]:
    """Bytes that are no text are shown with what stands for them, as `chronik consume` does."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode("utf-8", "backslashreplace")

    return {
        "pipeline": letter.pipeline,
        "flow": letter.flow,
        "topic": letter.topic,
        "topic_id": letter.topic_id,
        "partition": letter.partition,
        "offset": letter.offset,
        "time": time_text(letter.timestamp_ms),
        "error": letter.error,
        "message": letter.message,
        "key": text(letter.key),
        "value": text(letter.value),
        "headers": {name: text(value) for name, value in letter.headers},
    }
