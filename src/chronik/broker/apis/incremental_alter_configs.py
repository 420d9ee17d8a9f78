"""IncrementalAlterConfigs (key 44): sets and deletes single keys, appends to lists and subtracts from them.

Resources: topics; this broker, by its id, or all brokers, by an empty name; this broker's loggers; metric
subscriptions; groups. Each succeeds or fails separately. Unknown broker keys are stored with a warning in the log; in
Kafka, plug-ins may use them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.config_changes import change_configs
from chronik.broker.permissions import ALTER_CONFIGS, CLUSTER, GROUP, TOPIC
from chronik.metadata.commands.alter_configs import ConfigChange, ResourceChange
from chronik.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    needs=(ALTER_CONFIGS.on(TOPIC), ALTER_CONFIGS.on(CLUSTER, "brokers"), ALTER_CONFIGS.on(GROUP)),
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    changes = [_change(asked) for asked in request.resources]
    answers = await change_configs(context, changes, incremental=True, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(
        throttle_time_ms=0,
        responses=[
            AlterConfigsResourceResponse(
                error_code=answer.error_code,
                error_message=answer.error_message,
                resource_type=answer.resource_type,
                resource_name=answer.resource_name,
            )
            for answer in answers
        ],
    )


def _change(asked: AlterConfigsResource) -> ResourceChange:
    return ResourceChange(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[
            ConfigChange(key=config.name, value=config.value, operation=config.config_operation)
            for config in asked.configs
        ],
    )
