"""Every API requires the permissions that it declares, and refuses callers without them with Kafka's errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from chronik.broker.api import Api, served_apis
from chronik.broker.audit import Audit
from chronik.broker.authorizer import Authorizer, Notes, StandardAuthorizer
from chronik.broker.dispatch import Dispatcher
from chronik.broker.permissions import (
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Operation,
    Resource,
    bits,
)
from chronik.broker.session import Principal, Session
from chronik.metadata.access import ALL, ALLOW, DENY, LITERAL, NO_ACCESS_RULES, AccessRule
from chronik.metadata.commands.create_delegation_token import CreateDelegationToken
from chronik.runtime.pieces import Work
from chronik.security.deciding import Policy
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from chronik.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from chronik.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from chronik.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from chronik.wire.messages.describe_groups import DescribeGroupsResponse
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_groups import ListGroupsResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.offset_commit import OffsetCommitResponse
from chronik.wire.messages.offset_delete import OffsetDeleteResponse
from chronik.wire.messages.offset_fetch import OffsetFetchResponse
from chronik.wire.notation import ZERO_UUID, Request, Response, Struct
from tests.broker.harness import Client
from tests.broker.hostile import World, run
from tests.broker.requests_of_all_apis import Row, example, of_groups, of_topics, rows

Asked = tuple[Operation, Resource, str]
NOTHING_ASKED_FOR = -2147483648


class Scripted:
    """Allows what a test specifies, and records all calls."""

    restricts = True

    def __init__(self, allows: Callable[[Operation, Resource, str], bool] = lambda *_: False) -> None:
        self._allows = allows
        self.asked: list[Asked] = []

    def allows(
        self,
        session: Session,
        operation: Operation,
        kind: Resource,
        name: str,
        api: str,
        notes: Notes = Notes.ALL,
    ) -> bool:
        self.asked.append((operation, kind, name))
        return self._allows(operation, kind, name)

    def allows_any(self, session: Session, operation: Operation, kind: Resource, api: str) -> Work[bool]:
        yield from ()
        return self.allows(session, operation, kind, "", api)


def only(*allowed: tuple[Operation, Resource, str]) -> Scripted:
    return Scripted(lambda *asked: asked in allowed)


TOKEN_APIS = range(38, 42)
ANSWERED_OTHERWISE_AGAIN = (
    *("JoinGroup", "InitProducerId", "Produce", "DeleteTopics", "ShareAcknowledge", "StreamsGroupHeartbeat"),
)


def token_of(owner: str) -> CreateDelegationToken:
    forever_ms = 1 << 60
    return CreateDelegationToken(
        owner=owner, requester=owner, renewers=[], issue_ms=0, expiry_ms=forever_ms, max_ms=forever_ms
    )


def token_rows() -> list[Row]:
    """Not for the comparison with Kafka: test_compat_tokens has more of them."""
    create = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="owner", renewers=[], max_lifetime_ms=-1
    )
    return [
        Row("CreateDelegationToken", create, 3, [65]),
        Row("DescribeDelegationToken", DescribeDelegationTokenRequest(owners=None), 3, [0]),
    ]


class Guarded:
    """A node with topic `t`, group `g` and an open transaction, whose authorizer can be exchanged."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._open = world.node.dispatcher
        [self.topic_id] = [topic.topic_id for topic in world.node.store.image.topics.values() if topic.name == "t"]

    @classmethod
    async def make(cls) -> Guarded:
        world = await World.make(auto_create_topics_enable=True, delegation_token_secret_key="secret")
        await world.node.store.submit(token_of("User:owner"))
        await world.create("t")
        guarded = cls(world)
        join = next(row for row in of_groups(guarded.topic_id) if row.what == "FindCoordinator")
        await guarded.ask(None, join)  # makes the topic of offsets
        await asyncio.sleep(1)
        commit = next(row for row in of_groups(guarded.topic_id) if row.what == "OffsetCommit")
        answer = await guarded.ask(None, commit)
        assert codes(answer) == [0]
        await guarded.begin_transaction()
        return guarded

    async def begin_transaction(self) -> None:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=["open"])
        await self.send(None, find, FindCoordinatorResponse, 4)  # makes the topic of transactions
        await asyncio.sleep(1)
        init = InitProducerIdRequest(transactional_id="open", transaction_timeout_ms=900_000)
        made = await self.send(None, init, InitProducerIdResponse, 4)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="open",
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        assert codes(await self.send(None, add, AddPartitionsToTxnResponse, 3)) == [0, 0]

    async def ask(self, authorizer: Authorizer | None, row: Row) -> Any:
        api = served_apis()[row.request.api_key]
        return await self.send(authorizer, row.request, api.response, row.version)

    async def send(
        self, authorizer: Authorizer | None, request: Request, response: type[Response], version: int
    ) -> Any:
        node = self.world.node
        node.dispatcher = self._open
        if authorizer is not None:
            services = replace(self._open._services, authorizer=authorizer)
            node.dispatcher = Dispatcher(services, served_apis())
        client = Client(node)
        if request.api_key in TOKEN_APIS:  # are not for strangers
            client.connection.session.principal = Principal("User", "caller")
        return await client.ask(request, response, version)


def codes(value: object) -> list[int]:
    """Every error code of a response, in the order of its fields."""
    return list(_codes(value))


def _codes(value: object) -> Iterator[int]:
    if isinstance(value, Struct):
        for name in type(value).__annotations__:
            if name in ("error_code", "partition_error_code"):
                yield getattr(value, name)
            else:
                yield from _codes(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _codes(each)


def story(test: Callable[[Guarded], Any]) -> Callable[[], None]:
    async def told() -> None:
        guarded = await Guarded.make()
        await test(guarded)
        await guarded.world.node.stop()

    def runs() -> None:
        run(told())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


def with_needs() -> list[Api]:
    return [api for api in served_apis().values() if api.needs]


@story
async def test_who_may_do_nothing_gets_the_answer_that_kafka_gives(guarded: Guarded) -> None:
    """Clients know what to do about 29, 30, 31 and 53; and no answer may tell what exists."""
    table = rows(guarded.topic_id) + token_rows()
    found = {row.what: codes(await guarded.ask(Scripted(), row)) for row in table}
    assert found == {row.what: row.denied for row in table}


@story
async def test_an_authorizer_without_rules_denies_as_the_table_says(guarded: Guarded) -> None:
    """And one whose rules are for others, or deny. With a rule that allows everything, nothing is denied."""
    for rules in (by_rules(), by_rules(*grants("User:other")), by_rules(*grants(), *grants(permission=DENY))):
        table = rows(guarded.topic_id) + token_rows()
        found = {row.what: codes(await guarded.ask(rules, row)) for row in table}
        assert found == {row.what: row.denied for row in table}
    for row in rows(guarded.topic_id):
        if row.what != "InitProducerId for a commit in two phases":  # disabled in the settings, for every caller
            assert not {29, 30, 31, 53} & set(codes(await guarded.ask(by_rules(*grants()), row))), row.what


def grants(principal: str = "User:*", permission: int = ALLOW) -> list[AccessRule]:
    """Everything on every resource."""
    return [
        AccessRule(kind, CLUSTER_NAME if kind is CLUSTER else "*", LITERAL, principal, "*", ALL, permission)
        for kind in Resource
    ]


def by_rules(*rules: AccessRule) -> StandardAuthorizer:
    access = NO_ACCESS_RULES
    for rule in rules:
        access = access.with_rule(rule)
    store = SimpleNamespace(image=SimpleNamespace(access=access))
    return StandardAuthorizer(cast(Any, store), Policy(), Audit(lambda: 0))


@story
async def test_each_api_asks_for_every_permission_that_it_declares(guarded: Guarded) -> None:
    """A declared permission that the API does not check protects nothing."""
    asked: dict[int, set[tuple[Operation, Resource]]] = {}
    table = rows(guarded.topic_id) + token_rows()
    listed = {row.request.api_key for row in table}
    new = [api for api in with_needs() if api.key not in listed]
    table = [Row(api.name, example(api.request), api.versions.last, []) for api in new] + table
    for row in table:
        for authorizer in (Scripted(), Scripted(lambda _, kind, __: kind != CLUSTER), Scripted(lambda *_: True)):
            await guarded.ask(authorizer, row)
            seen = {(operation, kind) for operation, kind, _ in authorizer.asked}
            asked.setdefault(row.request.api_key, set()).update(seen)
    silent = {
        api.name: str(need)
        for api in with_needs()
        for need in api.needs
        if (need.operation, need.kind) not in asked.get(api.key, set())
    }
    assert silent == {}


@story
async def test_what_an_api_declares_is_enough(guarded: Guarded) -> None:
    """An administrator who grants the documented permissions gets the same responses as on a node without rules."""
    for row in rows(guarded.topic_id):
        if row.what.startswith(ANSWERED_OTHERWISE_AGAIN):
            continue  # the same request gets another answer the second time
        if row.what.endswith("Acls"):
            continue  # without an authorizer there are none
        needs = {(need.operation, need.kind) for need in served_apis()[row.request.api_key].needs}
        granted = Scripted(lambda operation, kind, _, needs=needs: (operation, kind) in needs)  # type: ignore[misc]
        expected = await guarded.ask(None, row)
        found = await guarded.ask(granted, row)
        for answer in (expected, found):
            _forget(answer)
        assert found == expected, row.what


def _forget(value: object) -> None:
    """The list of allowed operations is part of the response, not a permission that the API needs. The id of a topic
    that is not created is random in each response."""
    if isinstance(value, Struct):
        for name in type(value).__annotations__:
            is_drawn = isinstance(value, CreatableTopicResult) and name == "topic_id"
            if is_drawn or name.endswith("authorized_operations"):
                setattr(value, name, None)
            else:
                _forget(getattr(value, name))
    elif isinstance(value, list | tuple):
        for each in value:
            _forget(each)


@story
async def test_an_authorizer_without_restrictions_is_never_asked(guarded: Guarded) -> None:
    """So that requests cost nothing while there are no rules."""
    authorizer = Scripted()
    authorizer.restricts = False
    for row in rows(guarded.topic_id):
        await guarded.ask(authorizer, row)
    assert authorizer.asked == []


@story
async def test_denied_topics_are_told_without_ids_names_or_existence(guarded: Guarded) -> None:
    named, by_id = of_topics(guarded.topic_id)[:2]
    answer: MetadataResponse = await guarded.ask(Scripted(), named)
    told = [(topic.name, topic.topic_id, topic.is_internal, topic.partitions) for topic in answer.topics]
    assert told == [("t", ZERO_UUID, False, []), ("absent", ZERO_UUID, False, [])]
    answer = await guarded.ask(Scripted(), by_id)
    denied = [topic for topic in answer.topics if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert [(topic.name, topic.topic_id) for topic in denied] == [(None, guarded.topic_id)]


@story
async def test_lists_leave_out_what_the_caller_may_not_see(guarded: Guarded) -> None:
    everything = MetadataRequest(topics=None, include_cluster_authorized_operations=True)
    answer: MetadataResponse = await guarded.send(Scripted(), everything, MetadataResponse, 10)
    assert (answer.topics, answer.cluster_authorized_operations) == ([], 0)
    answer = await guarded.send(only((DESCRIBE, TOPIC, "t")), everything, MetadataResponse, 10)
    assert [topic.name for topic in answer.topics] == ["t"]
    groups = next(row for row in of_groups(guarded.topic_id) if row.what == "ListGroups")
    for authorizer, names in (
        (Scripted(), []),
        (only((DESCRIBE, GROUP, "g")), ["g"]),
        (only((DESCRIBE, CLUSTER, CLUSTER_NAME)), ["g"]),
    ):
        listed: ListGroupsResponse = await guarded.ask(authorizer, groups)
        assert [group.group_id for group in listed.groups] == names


@story
async def test_allowed_operations_are_those_that_the_caller_may_do(guarded: Guarded) -> None:
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="t", topic_id=ZERO_UUID)], include_topic_authorized_operations=True
    )
    authorizer = only((DESCRIBE, TOPIC, "t"), (READ, TOPIC, "t"), (DESCRIBE, CLUSTER, CLUSTER_NAME))
    answer: MetadataResponse = await guarded.send(authorizer, asked, MetadataResponse, 10)
    assert answer.topics[0].topic_authorized_operations == bits(READ, DESCRIBE)
    assert answer.cluster_authorized_operations == NOTHING_ASKED_FOR
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    cluster: DescribeClusterResponse = await guarded.send(authorizer, request, DescribeClusterResponse, 1)
    assert cluster.cluster_authorized_operations == bits(DESCRIBE)
    cluster = await guarded.send(only((READ, TOPIC, "t")), request, DescribeClusterResponse, 1)
    assert cluster.cluster_authorized_operations == 0
    row = next(row for row in of_groups(guarded.topic_id) if row.what == "DescribeGroups")
    groups: DescribeGroupsResponse = await guarded.ask(only((DESCRIBE, GROUP, "g")), row)
    assert groups.groups[0].authorized_operations == bits(DESCRIBE)


@story
async def test_a_topic_is_created_on_use_only_by_those_who_may_create_it(guarded: Guarded) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="made", topic_id=ZERO_UUID)])
    describes = (DESCRIBE, TOPIC, "made")
    answer: MetadataResponse = await guarded.send(only(describes), asked, MetadataResponse, 12)
    [topic] = answer.topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ZERO_UUID)
    assert guarded.world.node.store.image.topic_named("made") is None
    answer = await guarded.send(only(describes, (CREATE, TOPIC, "made")), asked, MetadataResponse, 12)
    assert answer.topics[0].error_code == 0


@story
async def test_who_may_create_a_topic_and_not_see_its_configuration_is_told_that_it_exists(guarded: Guarded) -> None:
    row = next(row for row in of_topics(guarded.topic_id) if row.what == "CreateTopics")
    answer: CreateTopicsResponse = await guarded.ask(only((CREATE, TOPIC, "new")), row)
    [made] = answer.topics
    assert (made.error_code, made.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (made.num_partitions, made.replication_factor, made.configs) == (-1, -1, [])
    answer = await guarded.ask(only((CREATE, CLUSTER, CLUSTER_NAME), (DESCRIBE_CONFIGS, TOPIC, "new")), row)
    assert (answer.topics[0].topic_config_error_code, answer.topics[0].num_partitions) == (0, 1)


@story
async def test_a_deletion_by_id_tells_the_name_only_to_those_who_may_see_it(guarded: Guarded) -> None:
    state = DeleteTopicState(name=None, topic_id=guarded.topic_id)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
    for authorizer, name in ((Scripted(), None), (only((DESCRIBE, TOPIC, "t")), "t")):
        answer: DeleteTopicsResponse = await guarded.send(authorizer, request, DeleteTopicsResponse, 6)
        [denied] = answer.responses
        assert (denied.error_code, denied.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    absent = DeleteTopicsRequest(topics=[DeleteTopicState(name="absent", topic_id=ZERO_UUID)], timeout_ms=1000)
    answer = await guarded.send(only((DESCRIBE, TOPIC, "absent")), absent, DeleteTopicsResponse, 6)
    assert codes(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert guarded.world.node.store.image.topic_named("t") is not None
    allowed = only((DELETE, TOPIC, "t"), (DESCRIBE, TOPIC, "t"))
    assert codes(await guarded.send(allowed, request, DeleteTopicsResponse, 6)) == [0]


@story
async def test_positions_in_topics_need_permission_for_the_topics_too(guarded: Guarded) -> None:
    table = {row.what: row for row in of_groups(guarded.topic_id)}
    reads, describes, deletes = (READ, GROUP, "g"), (DESCRIBE, GROUP, "g"), (DELETE, GROUP, "g")
    for what in ("OffsetCommit", "OffsetCommit by id"):
        committed: OffsetCommitResponse = await guarded.ask(only(reads), table[what])
        assert codes(committed) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    deleted: OffsetDeleteResponse = await guarded.ask(only(deletes), table["OffsetDelete"])
    assert codes(deleted) == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    named = {what: codes(await guarded.ask(only(describes), table[what])) for what in table if "OffsetFetch" in what}
    assert named == {
        "OffsetFetch": [0, 29, 0],
        "OffsetFetch by id": [0, 29, 0],
        "OffsetFetch of everything": [0, 0],
        "OffsetFetch of one group": [29, 0],
        "OffsetFetch without an error of the group": [29, 0],
    }
    everything: OffsetFetchResponse = await guarded.ask(only(describes), table["OffsetFetch of everything"])
    assert everything.groups[0].topics == []


@story
async def test_a_transaction_needs_permission_for_its_id(guarded: Guarded) -> None:
    """With the permission, the request gets the same response as without rules."""
    row = next(row for row in rows(guarded.topic_id) if row.what == "Produce in a transaction")
    authorizer = only((WRITE, TRANSACTIONAL_ID, "x"), (WRITE, TOPIC, "t"))
    assert codes(await guarded.ask(authorizer, row)) == codes(await guarded.ask(None, row)) != [53]
