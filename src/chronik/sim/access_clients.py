"""Clients of a cluster with access rules: subjects that send allowed and denied requests, and an operator that changes
the rules.

Subjects do not log in: rules distinguish them by host. Users log in on a separate listener (`access_users`). Both ask
one node directly and record whether it denied; any other answer, including an error, counts as not denied. They judge
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Final, NamedTuple

from chronik.client.errors import ClientError
from chronik.metadata.access import ALL, ALLOW, DENY, LITERAL, PREFIXED, AccessRule
from chronik.peer.connection import Connection
from chronik.sim.access_tokens import TokenSessions
from chronik.sim.access_users import PASSWORDS, USERS, UserSessions, change_user_or_quota, pause
from chronik.sim.checkers.access import ASK, Asked, Produced
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, REFUSED, UNKNOWN, History
from chronik.sim.programs import host_of
from chronik.sim.wire_clients import PATIENCE_MS, ClientTasks, WireClient, make_client
from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.notation import ZERO_UUID
from chronik.wire.records import Record

ANONYMOUS, EVERYBODY, EVERYWHERE = "User:ANONYMOUS", "User:*", "*"
OPERATOR: Final = "operator"
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE, CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 4, 5, 7, 8, 9, 10, 11
TOPICS: Final = ("orders", "orders-eu", "pay")
GROUPS: Final = ("readers",)
DENIALS: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED})
FIRST_RULES: Final = 6  # created at the start, so that something is allowed
USER_CLIENTS: Final = 2
CLIENT_WITH_TOKENS: Final = "client-with-tokens"
NAMES_LAST: Final = 12  # the last version of Fetch and Produce that identifies topics by name


def subject_of(number: int) -> str:
    return f"subject-{number}"


class AccessClients:
    def __init__(self, cluster: SimCluster, history: History, *, subject_count: int, think_ms: tuple[int, int]) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._think_ms = think_ms
        self._subjects = [subject_of(number) for number in range(1, subject_count + 1)]
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)

    def begin(self) -> None:
        for name in self._subjects:
            client = make_client(self.cluster, name)
            self._tasks.start(client, self._ask_again_and_again(client))
        operator = make_client(self.cluster, OPERATOR)
        self._tasks.start(operator, self._change_rules(operator))
        self._tasks.start(operator, self._change_users(operator))
        for number in range(1, 1 + USER_CLIENTS * bool(self._subjects)):
            client = make_client(self.cluster, f"user-client-{number}")
            self._tasks.start(client, self._use_logins(client))
        if self._subjects:
            client = make_client(self.cluster, CLIENT_WITH_TOKENS)
            self._tasks.start(client, self._use_tokens(client))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    async def _ask_again_and_again(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            await self.ask(client, random.choice(list(self.cluster.machines)), random.choice(QUESTIONS))

    async def ask(self, client: WireClient, node_id: int, question: Question) -> None:
        try:
            connection = await client.to(node_id)
        except ClientError:
            return
        if not await self._ask_on(connection, client, node_id, ANONYMOUS, question):
            client.hang_up(node_id)

    async def _ask_on(
        self, connection: Connection, client: WireClient, node_id: int, principal: str, question: Question
    ) -> bool:
        """Whether the connection can be reused."""
        asked = Asked(principal, client.name, *question[:3])
        noted = self.history.invoke(client.name, host_of(node_id), ASK, question.name, asked)
        try:
            result = await question.ask(connection, question.name)
        except ClientError as error:
            self.history.complete(noted, UNKNOWN, type(error).__name__)
            return False
        code = result.code if isinstance(result, Produced) else result
        self.history.complete(noted, REFUSED if code in DENIALS else OK, result)
        return not (isinstance(result, Produced) and result.throttle_ms)

    async def _use_logins(self, client: WireClient) -> None:
        random, sessions = self.world.random(f"{client.name} asks"), UserSessions(self.cluster, self.history, client)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            node_id = random.choice(list(self.cluster.machines))

            async def ask(connection: Connection, principal: str, node_id: int = node_id) -> bool:
                return await self._ask_on(connection, client, node_id, principal, random.choice(QUESTIONS))

            await sessions.once(node_id, ask)

    async def _use_tokens(self, client: WireClient) -> None:
        """Logs in with passwords to change tokens, and with tokens."""
        random, nodes = self.world.random(f"{client.name} asks"), list(self.cluster.machines)
        users = UserSessions(self.cluster, self.history, client)
        sessions = TokenSessions(self.cluster, self.history, client)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            if sessions.tokens and random.random() < 0.7:
                await sessions.log_in(random.choice(nodes), random.choice(sessions.tokens))
                continue
            user = random.choice(USERS)
            connection = await users.log_in(random.choice(nodes), user, random.choice(PASSWORDS))
            if connection is None:
                continue
            try:
                await sessions.change(connection, user, random)
            except ClientError:
                continue  # the nodes show whether something changed
            finally:
                connection.close()

    async def _change_users(self, client: WireClient) -> None:
        random = self.world.random("users")
        while not self._is_over:
            await pause(random)
            try:
                connection = await client.to(random.choice(list(self.cluster.machines)))
                await change_user_or_quota(connection, random)
            except ClientError:
                continue  # the nodes show whether something changed

    async def _change_rules(self, client: WireClient) -> None:
        """Slow enough that some rules outlive the time that a node may be out of date."""
        random = self.world.random("rules")
        made: list[AccessRule] = []
        while not self._is_over:
            if len(made) >= FIRST_RULES:
                await asyncio.sleep(random.choice((random.randint(50, 800), random.randint(1000, 7000))) / 1000)
            try:
                connection = await client.to(random.choice(list(self.cluster.machines)))
                if len(made) >= FIRST_RULES and random.random() < 0.5:
                    await _delete(connection, made.pop(random.randrange(len(made))))
                else:
                    rules = [draw_rule(random, self._subjects) for _ in range(random.randint(1, 3))]
                    made += rules
                    await _create(connection, rules)
            except ClientError:
                await asyncio.sleep(0.05)
                continue  # the nodes show whether the rules changed


def draw_rule(random: Random, subjects: list[str]) -> AccessRule:
    kind = random.choice((TOPIC, TOPIC, TOPIC, GROUP))
    pattern = random.choice((LITERAL, LITERAL, PREFIXED))
    names = {LITERAL: (*TOPICS, "*"), PREFIXED: ("o", "orders", "orders-", "p", "pays")}[pattern]
    return AccessRule(
        kind,
        random.choice(names if kind == TOPIC else (*GROUPS, "*") if pattern == LITERAL else ("r", "readers-")),
        pattern,
        random.choice((ANONYMOUS, ANONYMOUS, EVERYBODY, *(f"User:{user}" for user in USERS))),
        random.choice((*subjects, EVERYWHERE)),
        random.choice((READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL)),
        random.choice((DENY, ALLOW, ALLOW, ALLOW)),
    )


def founding_rules(node_hosts: list[str]) -> list[AccessRule]:
    """The initial rules of nodes and operator, and of a topic to which user quotas apply."""
    cluster = (CLUSTER, "kafka-cluster", LITERAL, ANONYMOUS)
    return [
        *(AccessRule(*cluster, host, CLUSTER_ACTION, ALLOW) for host in node_hosts),
        AccessRule(*cluster, OPERATOR, ALL, ALLOW),
        *(AccessRule(TOPIC, TOPICS[-1], LITERAL, f"User:{user}", EVERYWHERE, WRITE, ALLOW) for user in USERS),
    ]


async def _create(connection: Connection, rules: list[AccessRule]) -> None:
    creations = [
        AclCreation(
            resource_type=rule.kind,
            resource_name=rule.name,
            resource_pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    await connection.ask(CreateAclsRequest(creations=creations), CreateAclsResponse, timeout_ms=PATIENCE_MS)


async def _delete(connection: Connection, rule: AccessRule) -> None:
    asked = DeleteAclsFilter(
        resource_type_filter=rule.kind,
        resource_name_filter=rule.name,
        pattern_type_filter=rule.pattern,
        principal_filter=rule.principal,
        host_filter=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
    await connection.ask(DeleteAclsRequest(filters=[asked]), DeleteAclsResponse, timeout_ms=PATIENCE_MS)


async def _produce(connection: Connection, topic: str) -> Produced:
    records = build([Record(0, 0, None, b"v", ())], Codec.NONE)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(acks=1, timeout_ms=PATIENCE_MS, topic_data=[data])
    answer = await connection.ask(request, ProduceResponse, version_max=NAMES_LAST, timeout_ms=PATIENCE_MS)
    return Produced(answer.responses[0].partition_responses[0].error_code, answer.throttle_time_ms)


async def _fetch(connection: Connection, topic: str) -> int:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    wanted = FetchTopic(topic=topic, partitions=[asked])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted], forgotten_topics_data=[])
    answer = await connection.ask(request, FetchResponse, version_max=NAMES_LAST, timeout_ms=PATIENCE_MS)
    return answer.responses[0].partitions[0].error_code if answer.responses else answer.error_code


async def _list_offsets(connection: Connection, topic: str) -> int:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    request = ListOffsetsRequest(replica_id=-1, topics=[wanted])
    answer = await connection.ask(request, ListOffsetsResponse, version_min=1, timeout_ms=PATIENCE_MS)
    return answer.topics[0].partitions[0].error_code


async def _metadata(connection: Connection, topic: str) -> int:
    wanted = [MetadataRequestTopic(name=topic, topic_id=ZERO_UUID)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = await connection.ask(request, MetadataResponse, timeout_ms=PATIENCE_MS)
    return answer.topics[0].error_code


async def _describe_configs(connection: Connection, topic: str) -> int:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=["retention.ms"])
    request = DescribeConfigsRequest(resources=[resource])
    answer = await connection.ask(request, DescribeConfigsResponse, timeout_ms=PATIENCE_MS)
    return answer.results[0].error_code


async def _find_coordinator(connection: Connection, group: str) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    answer = await connection.ask(request, FindCoordinatorResponse, version_min=4, timeout_ms=PATIENCE_MS)
    return answer.coordinators[0].error_code


class Question(NamedTuple):
    operation: int
    kind: int
    name: str
    ask: Callable[[Connection, str], Coroutine[None, None, int | Produced]]  # returns the error code


QUESTIONS: Final = [
    *(
        Question(operation, TOPIC, name, ask)
        for operation, ask in (
            (WRITE, _produce),
            (READ, _fetch),
            (DESCRIBE, _list_offsets),
            (DESCRIBE, _metadata),
            (DESCRIBE_CONFIGS, _describe_configs),
        )
        for name in TOPICS
    ),
    *(Question(DESCRIBE, GROUP, name, _find_coordinator) for name in GROUPS),
]
