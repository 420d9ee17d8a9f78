"""A node's complete, typed configuration. The node uses no other configuration.

The fields here depend on several keys. Every other attribute is the value of one key, as defined by `BrokerValues` in
the catalogue. Values are layered as in Kafka: default, then file, environment and overrides, then run-time configs for
all brokers, then those for this one. Settings are immutable; `with_dynamic` creates new ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chronik.broker.errors import BadSetting, CannotStart
from chronik.broker.settings.exposure import SECRET
from chronik.broker.settings.layers import Layers
from chronik.broker.settings.listener_keys import ListenerKeys
from chronik.broker.settings.listeners import Address, Listener, Voter
from chronik.broker.settings.properties import parse_properties, settings_in_environment
from chronik.broker.settings.resolving import resolve
from chronik.broker.settings.sasl import BrokerLogin, SaslListener
from chronik.broker.settings.values import parse_value
from chronik.broker.topic_settings import log_config, topic_default
from chronik.catalogue.broker_keys import BROKER_KEYS, is_known
from chronik.catalogue.broker_values import FIELDS, BrokerValues
from chronik.runtime.machine import SIMULATED, Machine
from chronik.runtime.real_disk import RealDisk
from chronik.security.deciding import Policy
from chronik.storage.config import LogConfig

log = logging.getLogger("chronik.broker.settings")


@dataclass(frozen=True)
class Settings(BrokerValues):
    layers: Layers = field(repr=False)  # the values as text, including secrets, and where each was set
    machine: Machine

    node_id: int
    is_broker: bool
    is_controller: bool
    rack: str | None
    log_dir: str
    other_log_dirs: tuple[str, ...]  # named in log.dirs and not used
    metadata_dir: str
    listeners: tuple[Listener, ...]  # for clients and brokers; the quorum's are separate
    advertised_listeners: tuple[Listener, ...]  # port 0 stands for the actual port of the listener with that name
    controller_listeners: tuple[Listener, ...]
    inter_broker_listener_name: str
    admin_listener: Address | None  # None: no health checks and no metrics
    voters: tuple[Voter, ...]  # ascending; empty: only this node, or see controller_quorum_bootstrap_servers
    controller_quorum_bootstrap_servers: tuple[Address, ...]
    memory_budget_bytes: int
    log_retention_ms: int  # -1: unlimited
    log_roll_ms: int
    max_connections_per_ip_overrides: Mapping[str, int]
    sasl_listeners: Mapping[str, SaslListener]  # by name: listeners that require a login
    broker_login: BrokerLogin | None  # how this broker logs in to other brokers; None: without a login
    access_policy: Policy | None  # None: everyone may do everything
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_key: bytes = field(repr=False)  # empty: delegation tokens are disabled
    quorum_secret: bytes = field(repr=False)  # empty: the quorum's nodes do not authenticate each other

    @classmethod
    def load(
        cls,
        path: str | None,
        *,
        environment: Mapping[str, str],
        overrides: Mapping[str, str],
        machine: Machine | None = None,
    ) -> Settings:
        """From a file (if any), the KAFKA_* variables and explicit overrides; the last wins. Raises BadSetting."""
        static: dict[str, str] = {}
        sources = {}
        if path is not None:
            static = parse_properties(_read(path))
            sources = dict.fromkeys(static, path)
        for key, (variable, value) in settings_in_environment(environment).items():
            static[key], sources[key] = value, variable
        for key, value in overrides.items():
            static[key], sources[key] = value, "the command line"
        note_keys(static, sources)
        _read_secret(static)
        settings = cls.of(Layers(_with_both_ids(static)), machine or Machine.here())
        if settings.other_log_dirs:
            log.warning("of the directories in log.dirs only %s is used: run a node for each disk", settings.log_dir)
        return settings

    @classmethod
    def default(cls, **overrides: object) -> Settings:
        """For tests and simulations: independent of the machine. `num_partitions=3` sets num.partitions."""
        static = {BROKER_KEYS.key_of(name): _as_text(value) for name, value in overrides.items()}
        return cls.of(Layers(_with_both_ids(static)), SIMULATED)

    @classmethod
    def of(cls, layers: Layers, machine: Machine) -> Settings:
        """From layered text. Raises BadSetting."""
        values: dict[str, Any] = {each.name: parse_value(each, layers.value(each.name)) for each in BROKER_KEYS}
        settings = cls(layers=layers, machine=machine, **resolve(values, layers, machine))
        vars(settings).update({name: values[key] for name, key in FIELDS.items()})
        return settings

    def __hash__(self) -> int:
        """A hash of the values that distinguish nodes, so that settings can be keys of a cache."""
        return self.node_id

    def require_dynamic(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Raises BadSetting if this node could not use these run-time configs."""
        self.of(Layers(self.layers.static, dict(cluster), dict(own)), self.machine)

    def with_dynamic(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> Settings:
        """The settings with these run-time configs, for all brokers and for this one.

        Never raises: a config for all brokers may contradict one broker's file. Then it is ignored on that broker.
        """
        layers = Layers(self.layers.static, dict(cluster), dict(own))
        if layers == self.layers:
            return self
        while True:
            try:
                return self.of(layers, self.machine)
            except BadSetting as fault:
                log.warning("ignored although set at run time: %s", fault)
                layers = layers.without(fault.key)

    def for_listener(self, name: str) -> ListenerKeys:
        """The keys as they apply to one listener."""
        layers = self.layers
        return ListenerKeys({**layers.static, **layers.cluster, **layers.own}, name)

    def topic_default(self, name: str) -> str:
        """The value for topics that do not set this topic-level key, as text."""
        return topic_default(self, name)

    def log_config(self, topic_overrides: Mapping[str, str]) -> LogConfig:
        """The log settings of a topic with these configs."""
        return log_config(self, topic_overrides)


def note_keys(keys: Mapping[str, str], sources: Mapping[str, str]) -> None:
    """Logs a warning for each unknown key, with the nearest known name, and a debug line for a key without effect."""
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


def _read(path: str) -> str:
    try:
        data = RealDisk().read_file(path)
    except OSError as fault:
        raise CannotStart(f"cannot read the configuration {path}: {fault.strerror}") from fault
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # as Java reads it


def _read_secret(static: dict[str, str]) -> None:
    """Replaces the secret's file name by its content."""
    path = static.get(f"{SECRET}.file", "").strip()
    if not path:
        return
    if static.get(SECRET):
        raise BadSetting(f"{SECRET}.file", path, f"{SECRET} is set as well: set one of them")
    try:
        static[SECRET] = _read(path).strip()
    except CannotStart as fault:
        raise BadSetting(f"{SECRET}.file", path, str(fault)) from fault
    if not static[SECRET]:
        raise BadSetting(f"{SECRET}.file", path, "the file is empty: write the quorum's secret into it")


def _with_both_ids(static: dict[str, str]) -> dict[str, str]:
    """node.id and broker.id are two names of one setting; both return it."""
    for name, other in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in static and other not in static:
            static[other] = static[name]
    return static


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
