"""Changes configs of topics, brokers, groups and metric subscriptions, key by key or as a whole.

Each resource of the command is decided alone, and all its keys together. Removing a key is always allowed; what else is
allowed is in `decisions.configs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from chronik.catalogue.definitions import Definition
from chronik.catalogue.values import ConfigType, split_list
from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.configs import CONFIG_RESOURCES
from chronik.metadata.decisions.decision import ControllerState, Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ResourceType, Topic, View
from chronik.metadata.records import ConfigRecord, MetadataRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, boolean, int8, int16, string

SET, DELETE, APPEND, SUBTRACT = range(4)  # ConfigChange.operation, Kafka's numbers
MIN_INSYNC_REPLICAS = "min.insync.replicas"


class AlterConfigsReply(Reply):
    resources: list[AlteredResource]


class AlteredResource(Struct):
    resource_type: int8
    resource_name: string
    error_code: int16 = 0
    error_message: string | None = None


class AlterConfigs(ControllerCommand[AlterConfigsReply]):
    resources: list[ResourceChange]
    incremental: boolean  # False: the given keys replace all others
    validate_only: boolean = False

    def decide(self, state: ControllerState) -> Decision[AlterConfigsReply]:
        view, rules = state.view, state.rules
        times = Counter((asked.resource_type, asked.resource_name) for asked in self.resources)
        records: list[MetadataRecord] = []
        replies = []
        for asked in self.resources:
            reply = AlteredResource(resource_type=asked.resource_type, resource_name=asked.resource_name)
            replies.append(reply)
            try:
                if times[asked.resource_type, asked.resource_name] > 1:
                    refuse(ErrorCode.INVALID_REQUEST, f"{asked.resource_name!r} is in the request more than once")
                changes = _alter(view, asked, rules, incremental=self.incremental)
                if any(change.key == MIN_INSYNC_REPLICAS for change in changes):
                    records += Elections(view, rules).without_elr(_topics_under(view, asked))
                records += changes
            except MetadataRefused as refused:
                reply.error_code, reply.error_message = refused.error_code, refused.message
        return Decision([] if self.validate_only else records, AlterConfigsReply(resources=replies))


class ResourceChange(Struct):
    resource_type: int8
    resource_name: string
    configs: list[ConfigChange]


class ConfigChange(Struct):
    key: string
    value: string | None
    operation: int8 = SET


def _topics_under(view: View, asked: ResourceChange) -> Iterable[Topic]:
    """The topics whose effective configuration the change may affect."""
    if asked.resource_type == ResourceType.BROKER:
        return view.all_topics()
    topic = view.topic_named(asked.resource_name)
    return () if topic is None else (topic,)


def _alter(view: View, asked: ResourceChange, rules: Rules, *, incremental: bool) -> list[ConfigRecord]:
    kind = CONFIG_RESOURCES.get(asked.resource_type)
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
    """The key's new value; None when it is unset."""
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
