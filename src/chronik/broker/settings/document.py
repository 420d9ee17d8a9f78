"""Generates docs/reference/configuration.md from the tables of keys, so that it always matches the code.

python -m chronik.broker.settings.document > docs/reference/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby

from chronik.catalogue.broker_values import ACTED_ON
from chronik.catalogue.definitions import Definition, UpdateMode
from chronik.catalogue.tls_keys import TLS_KEYS
from chronik.catalogue.token_keys import TOKEN_KEYS
from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.catalogue.without_effect import WITHOUT_EFFECT

TABLE_PREFIX = "chronik.table."  # the broker checks and stores these; `chronik materialize` acts on them
LONG_MAX, INT_MAX = str(2**63 - 1), str(2**31 - 1)

OPENING = """\
# Configuration

*Made from the tables in `src/chronik/catalogue` by `python -m chronik.broker.settings.document`; do not edit.*

`chronik server FILE` reads an unchanged KRaft `server.properties`. Settings are applied in this order; later ones win:

1. the defaults below, which are Kafka's;
2. the file, in Java's properties syntax;
3. environment variables, as in the usual container images: `KAFKA_LOG_DIRS` sets `log.dirs`; `__` stands for `_` and
   `___` for `-`; `KAFKA_CFG_` works as well as `KAFKA_`;
4. `--override` on the command line;
5. settings changed at run time (`chronik config`, or any Kafka tool), for all brokers and then for one. The column
   *change* shows what is possible: *cluster* for both, *broker* for one broker only, *restart* for neither.

An unknown key logs a warning with the nearest known key. With an invalid value the node does not start; the error names
the key, the value and the reason. Keys that begin with `chronik.` are Chronik's own. All others have the meaning they
have in Kafka 4.3.
"""

TOPICS = """
## Keys of topics

Changes to a topic (`chronik topic alter`, or any Kafka tool) take effect immediately. If a topic does not set a key,
the node's key applies.
"""

NOTHING = """
## Accepted without effect

Chronik accepts these keys of Kafka and ignores them. Their types and bounds are still checked.
"""

CHANGES = {UpdateMode.READ_ONLY: "restart", UpdateMode.PER_BROKER: "broker", UpdateMode.CLUSTER_WIDE: "cluster"}


def document() -> str:
    """The whole page."""
    return "".join([OPENING, *_acting(), TOPICS, *_topics(), NOTHING, *_without_effect()])


def _acting() -> Iterator[str]:
    for section, definitions in _sections((*ACTED_ON.values(), *TLS_KEYS.values(), *TOKEN_KEYS.values())):
        yield f"\n## {section}\n\n| key | type | default | change | what it does |\n|---|---|---|---|---|\n"
        for each in definitions:
            allowed = f" Allowed: {each.describe_allowed()}." if each.allowed else ""
            row = f"| `{each.name}` | {each.type.name.lower()} | {_shown(each.default)} | {CHANGES[each.mode]}"
            yield f"{row} | {each.words}{allowed} |\n"


def _topics() -> Iterator[str]:
    yield "\n| key | type | default | node's key | what it does |\n|---|---|---|---|---|\n"
    acting = [each for each in TOPIC_CONFIGS.values() if each.has_effect and not each.name.startswith(TABLE_PREFIX)]
    for each in sorted(acting):
        behind = ", ".join(f"`{synonym.key}`" for synonym in each.synonyms)
        yield f"| `{each.name}` | {each.type.name.lower()} | {_shown(each.default)} | {behind} | {each.words} |\n"
    yield f"\nFor `chronik materialize`: {_listed(name for name in TOPIC_CONFIGS if name.startswith(TABLE_PREFIX))}.\n"
    yield f"\nAccepted without effect: {_listed(each.name for each in TOPIC_CONFIGS.values() if each.is_idle)}.\n"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _without_effect() -> Iterator[str]:
    for section, definitions in _sections(WITHOUT_EFFECT.values()):
        names = ", ".join(f"`{each.name}`" for each in definitions)
        yield f"\n**{section}.** {names}.\n"


def _sections(definitions: Iterable[Definition]) -> Iterator[tuple[str, list[Definition]]]:
    for section, members in groupby(definitions, lambda each: each.section):
        yield section, list(members)


def _shown(default: str | None) -> str:
    if default in (LONG_MAX, INT_MAX):
        return "no limit"
    return f"`{default}`" if default else ""


if __name__ == "__main__":
    sys.stdout.write(document())
