"""All keys that a node's configuration may contain, and which of them can change while it runs.

`BROKER_KEYS` is the order in which DescribeConfigs lists them. The sets below are derived from the tables.
"""

from __future__ import annotations

from chronik.catalogue.broker_values import ACTED_ON
from chronik.catalogue.definitions import Definitions, UpdateMode
from chronik.catalogue.tls_keys import TLS_KEYS
from chronik.catalogue.token_keys import TOKEN_KEYS
from chronik.catalogue.values import ConfigType
from chronik.catalogue.without_effect import FORMER, WITHOUT_EFFECT

OWN_PREFIX = "chronik."
# Keys of plugins and of single listeners: the rest of the name is free text.
OPEN_PREFIXES = ("listener.name.", "config.providers.", "rlmm.config.", "rsm.config.")
_keys_of_fields = {"rack": "broker.rack", "voters": "controller.quorum.voters", "metadata_dir": "metadata.log.dir"}


class BrokerKeys(Definitions):
    def key_of(self, field: str) -> str:
        """The key behind a field of Settings."""
        dotted = field.replace("_", ".")
        for key in (_keys_of_fields.get(field, dotted), OWN_PREFIX + dotted):
            if key in self:
                return key
        raise KeyError(f"no setting is named {dotted}, nor {OWN_PREFIX}{dotted}")


BROKER_KEYS = BrokerKeys(ACTED_ON, TLS_KEYS, TOKEN_KEYS, WITHOUT_EFFECT)

READ_ONLY = frozenset(each.name for each in BROKER_KEYS if each.mode is UpdateMode.READ_ONLY)
# These differ between brokers, so they have no value for all brokers.
PER_BROKER = frozenset(each.name for each in BROKER_KEYS if each.mode is UpdateMode.PER_BROKER)
# Java class names; the classes cannot be loaded here.
CLASSES = frozenset(name for name in PER_BROKER if BROKER_KEYS[name].type is ConfigType.CLASS)
# Keys and certificates: without a listener prefix, a change would affect every listener and its connections.
LISTENER_ONLY = frozenset(
    name for name in PER_BROKER if name.startswith(("ssl.key.", "ssl.keystore.", "ssl.truststore."))
)


def is_known(key: str) -> bool:
    return key in BROKER_KEYS or key in FORMER or key.startswith(OPEN_PREFIXES)
