"""Changing configs of topics, brokers, groups and metric subscriptions, key by key or as a whole.

Each resource of a command is decided alone, and all its keys together: values that do not fit each other are refused as
one that does not fit its type. Unknown keys are refused for topics and groups; a broker may be given keys of its own
plug-ins, but none of those that it reads only at its start. Taking a key away is never wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from chronik.catalogue.broker_keys import BROKER_KEYS, CLASSES, LISTENER_ONLY, PER_BROKER, READ_ONLY
from chronik.catalogue.definitions import Definition
from chronik.catalogue.group_keys import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, METRICS_INTERVAL_MS
from chronik.catalogue.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from chronik.catalogue.values import ConfigType, InvalidValue, split_list
from chronik.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterConfigs,
    AlterConfigsReply,
    AlteredResource,
    ConfigChange,
    ResourceChange,
)
from chronik.metadata.config_layers import BrokerConfigs, resolve
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ResourceType, Topic, View
from chronik.metadata.records import ConfigRecord, Record
from chronik.wire.error_codes import ErrorCode

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def alter_configs(view: View, command: AlterConfigs, rules: Rules) -> Decision[AlterConfigsReply]:
    times = Counter((asked.resource_type, asked.resource_name) for asked in command.resources)
    records: list[Record] = []
    replies = []
    for asked in command.resources:
        reply = AlteredResource(resource_type=asked.resource_type, resource_name=asked.resource_name)
        replies.append(reply)
        try:
            if times[asked.resource_type, asked.resource_name] > 1:
                refuse(ErrorCode.INVALID_REQUEST, f"{asked.resource_name!r} is in the request more than once")
            changes = _alter(view, asked, rules, incremental=command.incremental)
            if any(change.key == MIN_INSYNC_REPLICAS for change in changes):
                records += Elections(view, rules).without_elr(_topics_under(view, asked))
            records += changes
        except MetadataRefused as refused:
            reply.error_code, reply.error_message = refused.error_code, refused.message
    return Decision([] if command.validate_only else records, AlterConfigsReply(resources=replies))


def _topics_under(view: View, asked: ResourceChange) -> Iterable[Topic]:
    """Whose configuration may be another one."""
    if asked.resource_type == ResourceType.BROKER:
        return view.all_topics()
    topic = view.topic_named(asked.resource_name)
    return () if topic is None else (topic,)


def _alter(view: View, asked: ResourceChange, rules: Rules, *, incremental: bool) -> list[ConfigRecord]:
    kind = KINDS.get(asked.resource_type)
    if kind is None:
        refuse(ErrorCode.INVALID_REQUEST, f"resource type {asked.resource_type} has no configs here")
    definition_of, require, check = kind
    if len({change.key for change in asked.configs}) < len(asked.configs):
        refuse(ErrorCode.INVALID_REQUEST, f"a key of {asked.resource_name!r} is in the request more than once")
    require(view, asked.resource_name)
    before = view.config(asked.resource_type, asked.resource_name)
    after = dict(before) if incremental else {}
    for change in asked.configs:
        value = _changed(definition_of(change.key), change, before)
        if value is None:
            after.pop(change.key, None)
        else:
            after[change.key] = value
    touched = {key: value for key, value in after.items() if before.get(key) != value}
    check(view, asked.resource_name, after, touched, rules)
    return [
        ConfigRecord(resource_type=asked.resource_type, resource_name=asked.resource_name, key=key, value=value)
        for key, value in [*sorted(touched.items()), *((key, None) for key in sorted(set(before) - set(after)))]
    ]


def _changed(definition: Definition | None, change: ConfigChange, before: Mapping[str, str]) -> str | None:
    """The key's value afterwards; None when it has none of its own."""
    if change.operation == DELETE:
        return None
    if change.value is None:
        refuse(ErrorCode.INVALID_REQUEST, f"{change.key} has no value: delete the key to use its default")
    if change.operation == SET:
        return change.value
    if change.operation not in (APPEND, SUBTRACT):
        refuse(ErrorCode.INVALID_REQUEST, f"{change.key}: unknown config operation {change.operation}")
    if definition is None or definition.type != ConfigType.LIST:
        verb = "append to" if change.operation == APPEND else "subtract from"
        refuse(ErrorCode.INVALID_CONFIG, f"cannot {verb} {change.key}: it is not a list")
    items = split_list(before.get(change.key, definition.default or ""))
    given = split_list(change.value)
    if change.operation == APPEND:
        return ",".join([*items, *(item for item in given if item not in items)])
    return ",".join(item for item in items if item not in given)


def check_topic_configs(view: View, own: Mapping[str, str], rules: Rules) -> None:
    """Refuses what a topic cannot have: unknown keys, values of the wrong type, values that contradict each other."""
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
    """Kafka answers INVALID_REQUEST for all that a broker cannot have."""
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

KINDS: dict[int, tuple[Callable[[str], Definition | None], Require, Check]] = {
    ResourceType.TOPIC: (TOPIC_CONFIGS.get, _require_topic, _check_topic),
    ResourceType.BROKER: (BROKER_KEYS.get, _require_broker, _check_broker),
    ResourceType.CLIENT_METRICS: (CLIENT_METRICS_CONFIGS.get, _require_name, _check_metrics),
    ResourceType.GROUP: (GROUP_CONFIGS.get, _require_name, _check_group),
}
