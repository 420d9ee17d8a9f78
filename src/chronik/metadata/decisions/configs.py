"""Validates the configs of topics, brokers, groups and metric subscriptions.

All keys of a resource are checked together: values that contradict each other are refused like values of the wrong
type. Unknown keys are refused for topics and groups. A broker may have keys for its own plug-ins, but no key that is
read only at startup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronik.catalogue.broker_keys import BROKER_KEYS, CLASSES, LISTENER_ONLY, PER_BROKER, READ_ONLY
from chronik.catalogue.definitions import Definition
from chronik.catalogue.group_keys import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, METRICS_INTERVAL_MS
from chronik.catalogue.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from chronik.catalogue.values import InvalidValue
from chronik.metadata.config_layers import BrokerConfigs, resolve
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.errors import refuse
from chronik.metadata.image import ResourceType, View
from chronik.wire.error_codes import ErrorCode


def check_topic_configs(view: View, own: Mapping[str, str], rules: Rules) -> None:
    """Refuses unknown keys, values of the wrong type, and values that contradict each other."""
    if not own:
        return
    for key, value in own.items():
        _check_value(TOPIC_CONFIGS.get(key) or INTERNAL_TOPIC_CONFIGS.get(key), key, value, "topic")
    defaults = BrokerConfigs({}, view.config(ResourceType.BROKER, ""), rules.static_configs)
    lag_min, lag_max = (resolve(key, own, defaults) for key in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if lag_min > lag_max:
        refuse(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms={lag_min} is above max.compaction.lag.ms={lag_max}: no record can obey both",
        )
    if resolve("remote.storage.enable", own, defaults):
        refuse(ErrorCode.INVALID_CONFIG, "remote.storage.enable=true: this cluster has no tiered storage")


def _check_value(definition: Definition | None, key: str, value: str, what: str) -> None:
    if definition is None:
        refuse(ErrorCode.INVALID_CONFIG, f"{key} is not a {what} config")
    try:
        definition.parse(value)
    except InvalidValue as reason:
        refuse(ErrorCode.INVALID_CONFIG, f"{key}={'[hidden]' if definition.is_sensitive else value!r}: {reason}")


def _require_topic(view: View, name: str) -> None:
    if not name:
        refuse(ErrorCode.INVALID_REQUEST, "topics have no default resource: name a topic")
    if view.topic_named(name) is None:
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


def _require_broker(view: View, name: str) -> None:
    if name and not (name.isascii() and name.isdigit()):
        refuse(ErrorCode.INVALID_REQUEST, f"invalid broker {name!r}: use its id, or an empty name for all brokers")
    if name and int(name) not in view.brokers:
        refuse(ErrorCode.INVALID_REQUEST, f"broker {name} is not registered")


def _require_name(view: View, name: str) -> None:
    if not name:
        refuse(ErrorCode.INVALID_REQUEST, "a default resource does not exist for this type: give it a name")


def _check_topic(view: View, name: str, after: Mapping[str, str], touched: Mapping[str, str], rules: Rules) -> None:
    check_topic_configs(view, after, rules)


def _check_broker(view: View, name: str, after: Mapping[str, str], touched: Mapping[str, str], rules: Rules) -> None:
    """Kafka answers INVALID_REQUEST to every invalid broker config."""
    if bare := sorted(LISTENER_ONLY & set(touched)):
        refuse(ErrorCode.INVALID_REQUEST, f"{bare[0]} is set for one listener, as listener.name.<listener>.{bare[0]}")
    if classes := sorted(CLASSES & set(touched)):
        refuse(ErrorCode.INVALID_REQUEST, f"{classes[0]} names a Java class, which cannot be loaded here")
    if fixed := sorted(READ_ONLY & set(touched)):
        refuse(ErrorCode.INVALID_REQUEST, f"{fixed[0]} needs a restart: set it in server.properties")
    if not name and (personal := sorted(PER_BROKER & set(touched))):
        refuse(ErrorCode.INVALID_REQUEST, f"{personal[0]} is a per-broker setting: name the broker")
    for key, value in touched.items():
        if definition := BROKER_KEYS.get(key):
            try:
                definition.parse(value)
            except InvalidValue as reason:
                shown = "[hidden]" if definition.is_sensitive else repr(value)
                refuse(ErrorCode.INVALID_REQUEST, f"{key}={shown}: {reason}")


def _check_group(view: View, name: str, after: Mapping[str, str], touched: Mapping[str, str], rules: Rules) -> None:
    for key, value in after.items():
        _check_value(GROUP_CONFIGS.get(key), key, value, "group")


def _check_metrics(view: View, name: str, after: Mapping[str, str], touched: Mapping[str, str], rules: Rules) -> None:
    for key, value in after.items():
        if key not in CLIENT_METRICS_CONFIGS:
            refuse(ErrorCode.INVALID_REQUEST, f"{key} is not a client metrics config")
        _check_value(CLIENT_METRICS_CONFIGS[key], key, value, "client metrics")
        if key == "interval.ms" and int(value) not in METRICS_INTERVAL_MS:
            allowed = f"{METRICS_INTERVAL_MS.start} to {METRICS_INTERVAL_MS.stop - 1}"
            refuse(ErrorCode.INVALID_REQUEST, f"interval.ms={value}: {allowed} are allowed")


Require = Callable[[View, str], None]
Check = Callable[[View, str, Mapping[str, str], Mapping[str, str], Rules], None]

CONFIG_RESOURCES: dict[int, tuple[Callable[[str], Definition | None], Require, Check]] = {
    ResourceType.TOPIC: (TOPIC_CONFIGS.get, _require_topic, _check_topic),
    ResourceType.BROKER: (BROKER_KEYS.get, _require_broker, _check_broker),
    ResourceType.CLIENT_METRICS: (CLIENT_METRICS_CONFIGS.get, _require_name, _check_metrics),
    ResourceType.GROUP: (GROUP_CONFIGS.get, _require_name, _check_group),
}
