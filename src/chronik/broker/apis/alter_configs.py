"""AlterConfigs (key 33): replaces the whole configuration of resources.

A key that is not named gets its default. IncrementalAlterConfigs replaces this API and describes the rules. Log levels
cannot be changed this way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.config_changes import change_configs
from chronik.broker.permissions import ALTER_CONFIGS, CLUSTER, GROUP, TOPIC
from chronik.metadata.commands.alter_configs import ConfigChange, ResourceChange
from chronik.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(
    AlterConfigsRequest,
    AlterConfigsResponse,
    needs=(ALTER_CONFIGS.on(TOPIC), ALTER_CONFIGS.on(CLUSTER, "brokers"), ALTER_CONFIGS.on(GROUP)),
)
async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    changes = [_change(asked) for asked in request.resources]
    answers = await change_configs(context, changes, incremental=False, validate_only=request.validate_only)
    return AlterConfigsResponse(
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
        configs=[ConfigChange(key=config.name, value=config.value) for config in asked.configs],
    )
