"""Every command of `chronik`, and words with which each of them gets as far as asking a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from chronik.cli.main import COMMANDS, app

Leaf = tuple[str, ...]

# Commands that query a cluster. `FILE` stands for a pipeline, `PLAIN` for a file with a word in it, `SCHEMA` for a JSON
# Schema.
ASKING: Final[dict[str, str]] = {
    "topic create": "x",
    "topic list": "--details",
    "topic describe": "x",
    "topic alter": "x --partitions 2",
    "topic delete": "x",
    "topic delete-records": "x --before latest",
    "topic elect": "",
    "produce": "x",
    "consume": "x",
    "group list": "--lag",
    "group describe": "x",
    "group explain": "x",
    "group reset": "x --to earliest --topic x",
    "group delete": "x",
    "group delete-offsets": "x --topic x",
    "txn list": "",
    "txn describe": "x",
    "txn explain": "x",
    "txn find-hanging": "",
    "txn abort": "x",
    "txn commit": "x --producer-id 1 --epoch 1 --yes",
    "config get": "topic x",
    "config set": "topic x retention.ms=7d",
    "config unset": "topic x retention.ms",
    "quota list": "",
    "quota set": "--user x consumer_byte_rate=1000000",
    "quota unset": "--user x consumer_byte_rate",
    "user add": "x --password-file PLAIN",
    "user list": "",
    "user describe": "x",
    "user delete": "x",
    "acl list": "",
    "acl add": "--principal User:x --operation read --topic x",
    "acl remove": "--principal User:x",
    "acl explain": "--principal User:x --operation read --topic x",
    "cluster status": "",
    "cluster add": "4@127.0.0.1:1",
    "cluster remove": "2",
    "cluster rebalance": "",
    "cluster decommission": "2",
    "doctor": "",
    "token create": "",
    "token list": "",
    "token renew": "x",
    "token expire": "x",
    "compat": "--live",
    "debug compare-replicas": "x",
    "sql": "SELECT * FROM x",
    "pipeline dry-run": "FILE",
    "pipeline run": "FILE",
    "pipeline status": "FILE",
    "pipeline backfill": "FILE raw_orders",
    "pipeline replay": "FILE",
    "dlq show": "x",
    "dlq replay": "FILE",
    "contract check": "x --schema SCHEMA",
    "table list": "",
    "materialize": "",
}
# These take the options of a cluster and ask it nothing, ask the driver of a running pipeline, or serve until they are
# stopped.
NOT_ASKING: Final = {"console", "context add", "pipeline init", "pipeline test", "pipeline stop"}
# These read a backup first; tests/backup has some.
NEEDING_A_BACKUP: Final = {"restore"}


# Commands that a node answers from its own knowledge.
ANSWERED_BY_ANY_NODE: Final = {"compat", "quota list"}
# What any node refuses first, since the connection has no login.
REFUSED_WITHOUT_A_LOGIN: Final = {"token create"}
NEEDING_SPARK: Final = {"pipeline", "materialize", "table", "dlq"}


def every_leaf() -> Iterator[Leaf]:
    for noun in COMMANDS:
        verbs = [verb for verb in app[noun] if not verb.startswith("-")]
        yield from ((noun, verb) for verb in verbs)
        if not verbs:
            yield (noun,)


def options_of(leaf: Leaf) -> list[str]:
    """Names of its options, aliases included."""
    command = app
    for word in leaf:
        command = command[word]
    return [
        name
        for each in command.assemble_argument_collection()
        if each.index is None
        for name in each.names
        if name.startswith("-")
    ]
