"""All metadata commands. A command's wire number is its position here, so append new ones at the end."""

from __future__ import annotations

from typing import Any

from chronik.metadata.commands.add_voter import AddVoter
from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.commands.alter_client_quotas import AlterClientQuotas
from chronik.metadata.commands.alter_configs import AlterConfigs
from chronik.metadata.commands.alter_partition import AlterPartition
from chronik.metadata.commands.alter_reassignments import AlterReassignments
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.change_delegation_token import ChangeDelegationToken
from chronik.metadata.commands.command import Command
from chronik.metadata.commands.create_acls import CreateAcls
from chronik.metadata.commands.create_delegation_token import CreateDelegationToken
from chronik.metadata.commands.create_partitions import CreatePartitions
from chronik.metadata.commands.create_topics import CreateTopics
from chronik.metadata.commands.delete_acls import DeleteAcls
from chronik.metadata.commands.delete_topics import DeleteTopics
from chronik.metadata.commands.describe_quorum import DescribeQuorum
from chronik.metadata.commands.elect_leaders import ElectLeaders
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.register_broker import RegisterBroker
from chronik.metadata.commands.remove_expired_tokens import RemoveExpiredTokens
from chronik.metadata.commands.remove_voter import RemoveVoter
from chronik.metadata.commands.report_lost_replicas import ReportLostReplicas
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.commands.update_features import UpdateFeatures
from chronik.metadata.commands.withdraw_replicas import WithdrawReplicas

COMMANDS: tuple[type[Command[Any]], ...] = (
    CreateTopics,
    DeleteTopics,
    CreatePartitions,
    AlterConfigs,
    RegisterBroker,
    BrokerHeartbeat,
    FenceBroker,
    UnregisterBroker,
    AlterPartition,
    AllocateProducerIds,
    UpdateFeatures,
    ElectLeaders,
    AlterReassignments,
    DescribeQuorum,
    AddVoter,
    RemoveVoter,
    ReportLostReplicas,
    AlterClientQuotas,
    AlterScramCredentials,
    CreateAcls,
    DeleteAcls,
    CreateDelegationToken,
    ChangeDelegationToken,
    RemoveExpiredTokens,
    WithdrawReplicas,
)
NUMBER_OF = {command: number for number, command in enumerate(COMMANDS)}
