"""All keys a node's configuration may contain, and what is said about those that change nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from chronik.broker.settings.acted_on import ACTED_ON
from chronik.broker.settings.definitions import Definitions
from chronik.broker.settings.without_effect import FORMER, WITHOUT_EFFECT

OWN_PREFIX = "chronik."
# Keys of plugins and of single listeners: their rest is free text.
OPEN_PREFIXES = ("listener.name.", "config.providers.", "rlmm.config.", "rsm.config.")
_field_keys = {"rack": "broker.rack", "voters": "controller.quorum.voters", "metadata_dir": "metadata.log.dir"}


class BrokerKeys(Definitions):
    def key_of(self, field: str) -> str:
        """The key behind a field of Settings."""
        dotted = field.replace("_", ".")
        for key in (_field_keys.get(field, dotted), OWN_PREFIX + dotted):
            if key in self:
                return key
        raise KeyError(f"no setting is named {dotted}, nor {OWN_PREFIX}{dotted}")


BROKER_KEYS = BrokerKeys(ACTED_ON, WITHOUT_EFFECT)


def is_known(key: str) -> bool:
    return key in BROKER_KEYS or key in FORMER or key.startswith(OPEN_PREFIXES)


def note_keys(keys: Mapping[str, str], sources: Mapping[str, str], log: logging.Logger) -> None:
    """One warning for each unknown key, with the nearest known name; what has no effect is for those who debug."""
    for key in keys:
        definition = BROKER_KEYS.get(key)
        if not is_known(key):
            near = BROKER_KEYS.nearest(key)
            advice = f"did you mean {near}?" if near else "no known name is near; it changes nothing"
            log.warning("unknown setting %s in %s: %s", key, sources[key], advice)
        elif definition is None:
            log.debug("%s in %s has no effect: Kafka 4 does not know it, or it belongs to a plugin", key, sources[key])
        elif not definition.has_effect:
            log.debug("%s in %s has no effect. %s", key, sources[key], definition.section)
