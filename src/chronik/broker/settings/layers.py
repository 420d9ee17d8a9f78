"""The text of every value, and where it was set.

Kafka's order, strongest first: this broker, all brokers, start-up, default. Values set at run time apply only to keys
that may change at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.definitions import UpdateMode
from chronik.metadata.config_layers import BrokerConfigs, ConfigSource


class Setting(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Layers:
    static: Mapping[str, str]  # file, environment and overrides
    cluster: Mapping[str, str] = field(default_factory=dict)  # set at run time for all brokers
    own: Mapping[str, str] = field(default_factory=dict)  # set at run time for this broker

    def settings(self, name: str) -> list[Setting]:
        """All values of the key, the effective one first; empty if it has none."""
        found = []
        definition = BROKER_KEYS.get(name)
        if definition is None or definition.mode is not UpdateMode.READ_ONLY:
            if name in self.own:
                found.append(Setting(name, self.own[name], ConfigSource.DYNAMIC_BROKER))
            if name in self.cluster:
                found.append(Setting(name, self.cluster[name], ConfigSource.DYNAMIC_DEFAULT_BROKER))
        if name in self.static:
            found.append(Setting(name, self.static[name], ConfigSource.STATIC_BROKER))
        if definition is not None and definition.default is not None:
            found.append(Setting(name, definition.default, ConfigSource.DEFAULT))
        return found

    def without(self, name: str) -> Layers:
        """Without the key's run-time values; if it has none, without all run-time values."""
        if name not in self.cluster and name not in self.own:
            return Layers(self.static)
        cluster = {key: value for key, value in self.cluster.items() if key != name}
        own = {key: value for key, value in self.own.items() if key != name}
        return Layers(self.static, cluster, own)

    @property
    def of_broker(self) -> BrokerConfigs:
        """The values from which topics take their defaults."""
        return BrokerConfigs(dynamic=self.own, dynamic_default=self.cluster, static=self.static)

    def value(self, name: str) -> str | None:
        """The effective text."""
        return next((setting.value for setting in self.settings(name)), None)

    def is_set(self, name: str) -> bool:
        """Whether the key is set explicitly: a default does not count."""
        return any(setting.source is not ConfigSource.DEFAULT for setting in self.settings(name))
