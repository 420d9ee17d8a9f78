"""Handles AlterConfigs and IncrementalAlterConfigs: checks what only this broker can check, and forwards the rest.

A broker checks its own configuration and that of all brokers, because only it knows its file. It also sets its log
levels, which are stored nowhere. The controller checks and stores everything else. Each resource succeeds or fails
separately; one that a request names twice fails both times.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.broker import log_levels
from chronik.broker.config_entries import require_this_broker
from chronik.broker.errors import BadSetting
from chronik.broker.live_settings import CLUSTER_DEFAULT
from chronik.broker.permissions import ALTER_CONFIGS, GROUP, TOPIC, Operation
from chronik.broker.settings.listener_keys import PREFIX
from chronik.broker.topics import refused_by
from chronik.catalogue.broker_keys import BROKER_KEYS, is_known
from chronik.catalogue.definitions import UpdateMode
from chronik.metadata.commands.alter_configs import (
    DELETE,
    SET,
    AlterConfigs,
    AlteredResource,
    ConfigChange,
    ResourceChange,
)
from chronik.metadata.commands.create_topics import why_not_a_topic_name
from chronik.metadata.errors import MetadataError, MetadataRefused, refuse
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.services import Services

log = logging.getLogger("chronik.broker.configs")


def require_allowed(context: Context, operation: Operation, resource_type: int, name: str) -> None:
    """Raises MetadataRefused. Resources other than topics and groups need permission for the cluster."""
    match resource_type:
        case ResourceType.TOPIC:
            is_allowed, error = context.allows(operation, TOPIC, name), ErrorCode.TOPIC_AUTHORIZATION_FAILED
        case ResourceType.GROUP:
            is_allowed, error = context.allows(operation, GROUP, name), ErrorCode.GROUP_AUTHORIZATION_FAILED
        case _:
            is_allowed, error = context.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_allowed:
        refuse(error, error.message)


async def change_configs(
    context: Context, resources: Sequence[ResourceChange], *, incremental: bool, validate_only: bool
) -> list[AlteredResource]:
    """One result for each resource, in their order."""
    services = context.services
    times = Counter((asked.resource_type, asked.resource_name) for asked in resources)
    answers = [_answer(asked) for asked in resources]
    for_controller = []
    for asked, answer in zip(resources, answers, strict=True):
        try:
            if times[asked.resource_type, asked.resource_name] > 1:
                refuse(ErrorCode.INVALID_REQUEST, f"the request names {asked.resource_name!r} more than once")
            require_allowed(context, ALTER_CONFIGS, asked.resource_type, asked.resource_name)
            if incremental and asked.resource_type == ResourceType.BROKER_LOGGER:
                _change_levels(services, asked, validate_only=validate_only)
                continue
            _judge(services, asked, incremental=incremental)
            for_controller.append((asked, answer))
        except MetadataRefused as fault:
            answer.error_code, answer.error_message = fault.error_code, fault.message
    if for_controller:
        command = AlterConfigs(
            resources=[asked for asked, _ in for_controller], incremental=incremental, validate_only=validate_only
        )
        await _submit(services, command, [answer for _, answer in for_controller])
        # The same path may hold a new certificate: then the file has changed, although the image has not.
        if not validate_only and any(
            _concerns_tls(asked) and not answer.error_code for asked, answer in for_controller
        ):
            services.certificates.reload()
    return answers


def _answer(asked: ResourceChange) -> AlteredResource:
    return AlteredResource(resource_type=asked.resource_type, resource_name=asked.resource_name)


async def _submit(services: Services, command: AlterConfigs, answers: Sequence[AlteredResource]) -> None:
    try:
        reply = await services.store.submit(command)
    except MetadataError as fault:
        for answer in answers:
            answer.error_code, answer.error_message = refused_by(fault)
        return
    for answer, decided in zip(answers, reply.resources, strict=True):
        answer.error_code, answer.error_message = decided.error_code, decided.error_message


def _judge(services: Services, asked: ResourceChange, *, incremental: bool) -> None:
    name = asked.resource_name
    if asked.resource_type == ResourceType.TOPIC and name and (reason := why_not_a_topic_name(name)):
        refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if asked.resource_type == ResourceType.BROKER:
        _judge_broker(services, asked, incremental=incremental)


def _judge_broker(services: Services, asked: ResourceChange, *, incremental: bool) -> None:
    """Checks whether the broker could continue with the new values. The controller checks changes to lists."""
    name = asked.resource_name
    if name != CLUSTER_DEFAULT:
        require_this_broker(services.node_id, name)
    image = services.store.image
    after = dict(image.config(ResourceType.BROKER, name)) if incremental else {}
    for change in asked.configs:
        if change.operation == DELETE:
            after.pop(change.key, None)
        elif change.operation == SET and change.value is not None:
            _require_changeable(change, name)
            after[change.key] = change.value
    if name == CLUSTER_DEFAULT:
        cluster, own = after, dict(image.config(ResourceType.BROKER, str(services.node_id)))
    else:
        cluster, own = dict(image.config(ResourceType.BROKER, CLUSTER_DEFAULT)), after
    try:
        services.settings.require_dynamic(cluster, own)
        if _concerns_tls(asked):
            services.certificates.require_usable(services.settings.with_dynamic(cluster, own))
    except BadSetting as fault:
        refuse(ErrorCode.INVALID_REQUEST, str(fault))


def _concerns_tls(asked: ResourceChange) -> bool:
    return asked.resource_type == ResourceType.BROKER and any(
        change.key.startswith(PREFIX) and ".ssl." in change.key for change in asked.configs
    )


def _require_changeable(change: ConfigChange, name: str) -> None:
    definition = BROKER_KEYS.get(change.key)
    if definition is None:
        if not is_known(change.key):
            near = BROKER_KEYS.nearest(change.key)
            log.warning("unknown setting %s set at run time%s", change.key, f": did you mean {near}?" if near else "")
    elif definition.mode is UpdateMode.READ_ONLY:
        refuse(ErrorCode.INVALID_REQUEST, f"{change.key} needs a restart: set it in server.properties")
    elif definition.mode is UpdateMode.PER_BROKER and name == CLUSTER_DEFAULT:
        refuse(ErrorCode.INVALID_REQUEST, f"{change.key} differs from broker to broker: name the broker")


def _change_levels(services: Services, asked: ResourceChange, *, validate_only: bool) -> None:
    require_this_broker(services.node_id, asked.resource_name)
    known = log_levels.levels()
    for change in asked.configs:
        if change.operation not in (SET, DELETE):
            refuse(ErrorCode.INVALID_REQUEST, f"a log level is set or deleted; {change.key} is not a list")
        if change.key not in known:
            refuse(ErrorCode.INVALID_CONFIG, f"there is no logger {change.key!r}")
        if change.operation == SET and change.value not in log_levels.LEVELS:
            levels = ", ".join(log_levels.LEVELS)
            refuse(ErrorCode.INVALID_CONFIG, f"{change.key}={change.value}: a level is one of {levels}")
        if change.operation == DELETE and change.key == log_levels.ROOT:
            refuse(ErrorCode.INVALID_REQUEST, "the root logger always has a level: set another")
    if not validate_only:
        for change in asked.configs:
            log_levels.set_level(change.key, change.value if change.operation == SET else None)
