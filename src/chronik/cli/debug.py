"""`chronik debug`: low-level checks of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import App

from chronik.cli.naming import existing_topic
from chronik.cli.output import Column, Row, human_count, id_list, print_rows
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, progress, run

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

app = App(
    name="debug",
    help="""\
Run low-level checks.

For example:
  chronik debug compare-replicas orders""",
)

COLUMNS = (
    Column("partition", "PARTITION", is_number=True),
    Column("leader", "LEADER", is_number=True),
    Column("compared", "COMPARED", id_list),
    Column("missing", "NO ANSWER", id_list),
    Column("start_offset", "START", human_count, is_number=True),
    Column("end_offset", "END", human_count, is_number=True),
    Column("result", "RESULT"),
)


@app.command(name="compare-replicas")
def compare_replicas(topic: str, *, options: Options = DEFAULTS) -> int:
    """Read a topic from every replica and compare the bytes that are committed on all of them.

    Each replica compacts its own log, so replicas of a compacted topic may differ and still be correct. Exits with 1
    if replicas differ or do not answer.

    For example:
      chronik debug compare-replicas orders

    Parameters
    ----------
    topic
        Name of the topic.
    """

    async def work(cluster: ClusterClient) -> int:
        from chronik.client.admin.replicas import compare

        await existing_topic(cluster, topic)
        with progress(f"comparing the replicas of {topic}"):
            found = await compare(cluster, topic)
        rows: list[Row] = [
            {
                "partition": each.partition,
                "leader": each.leader_id,
                "compared": list(each.compared),
                "missing": list(each.missing),
                "start_offset": each.start_offset,
                "end_offset": each.end_offset,
                "differs_at": each.differs_at,
                "result": "equal" if each.is_equal else f"differ at offset {each.differs_at}",
            }
            for each in found
        ]
        print_rows(rows, COLUMNS, as_json=options.wants_json)
        return DONE if all(each.is_equal and not each.missing for each in found) else REFUSED

    return run(options, work)
