"""DescribeAcls, CreateAcls and DeleteAcls on a node with an authorizer, on one without, and across a restart."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from chronik.broker.session import ANONYMOUS, Principal
from chronik.broker.settings.access import STANDARD
from chronik.metadata.commands.delete_acls import DeleteAcls, DeleteAclsReply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from chronik.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.harness import Client
from tests.broker.hostile import World, run

ROOT = Principal("User", "root")
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, DESCRIBE, READ, WRITE, DENY, ALLOW = 2, 8, 3, 4, 2, 3
VERSIONS = range(4)


async def guarded(**settings: object) -> World:
    settings = {"authorizer_class_name": STANDARD, "super_users": str(ROOT), **settings}
    world = await World.make(**settings)
    world.client.connection.session.principal = ROOT
    return world


def creation(name: str = "orders", **fields: Any) -> AclCreation:
    usual = {"resource_type": TOPIC, "principal": str(ANONYMOUS), "host": "*", "operation": WRITE}
    return AclCreation(resource_name=name, **{**usual, "permission_type": ALLOW, **fields})


async def create(client: Client, *asked: AclCreation, version: int = 3) -> list[int]:
    answer = await client.ask(CreateAclsRequest(creations=list(asked)), CreateAclsResponse, version)
    return [result.error_code for result in answer.results]


async def describe(client: Client, *, version: int = 3, **fields: Any) -> DescribeAclsResponse:
    usual = {"resource_type_filter": ANY, "resource_name_filter": None, "principal_filter": None, "host_filter": None}
    usual |= {"operation": ANY, "permission_type": ANY, "pattern_type_filter": ANY if version else LITERAL}
    return await client.ask(DescribeAclsRequest(**{**usual, **fields}), DescribeAclsResponse, version)


async def delete(client: Client, *, version: int = 3, **fields: Any) -> DeleteAclsResponse:
    usual = {"resource_type_filter": ANY, "resource_name_filter": None, "principal_filter": None, "host_filter": None}
    usual |= {"operation": ANY, "permission_type": ANY, "pattern_type_filter": ANY if version else LITERAL}
    asked = DeleteAclsFilter(**{**usual, **fields})
    return await client.ask(DeleteAclsRequest(filters=[asked]), DeleteAclsResponse, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_rule_is_created_described_and_deleted_in_every_version(version: int) -> None:
    async def story() -> None:
        world = await guarded()
        assert await create(world.client, creation(), version=version) == [0]
        shown = await describe(world.client, version=version)
        [resource] = shown.resources
        assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (TOPIC, "orders", LITERAL)
        [acl] = resource.acls
        assert (acl.principal, acl.host, acl.operation, acl.permission_type) == ("User:ANONYMOUS", "*", WRITE, ALLOW)
        [result] = (await delete(world.client, version=version)).filter_results
        assert [each.resource_name for each in result.matching_acls] == ["orders"]
        assert (await describe(world.client, version=version)).resources == []

    run(story())


def test_rules_decide_from_the_moment_they_are_acknowledged() -> None:
    async def story() -> None:
        world = await guarded()
        await world.create("orders")
        stranger = World(world.node, world.disk)
        denied, allowed = ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0
        assert (await stranger.produce()).error_code == denied
        await create(world.client, creation())
        assert (await stranger.produce()).error_code == allowed
        assert (await stranger.fetch()).error_code == denied
        await create(world.client, creation("ord", resource_pattern_type=PREFIXED, permission_type=DENY))
        assert (await stranger.produce()).error_code == denied
        await delete(world.client, permission_type=DENY)
        assert (await stranger.produce()).error_code == allowed
        await delete(world.client)
        assert (await stranger.produce()).error_code == denied

    run(story())


def test_rules_survive_a_restart() -> None:
    async def story() -> None:
        world = await guarded()
        await create(world.client, creation("a"), creation("b"))
        await world.node.stop()
        again = await guarded(disk=world.disk)
        assert [each.resource_name for each in (await describe(again.client)).resources] == ["a", "b"]

    run(story())


def test_without_an_authorizer_there_are_no_rules() -> None:
    async def story() -> None:
        client = (await World.make()).client
        assert await create(client, creation()) == [ErrorCode.SECURITY_DISABLED]
        assert (await describe(client)).error_code == ErrorCode.SECURITY_DISABLED
        [result] = (await delete(client)).filter_results
        assert result.error_code == ErrorCode.SECURITY_DISABLED

    run(story())


def test_bad_rules_and_filters_are_refused_alone() -> None:
    async def story() -> None:
        client = (await guarded()).client
        bad = [creation(""), creation(principal="me"), creation(operation=ANY), creation(resource_type=4)]
        assert await create(client, *bad, creation()) == [42, 42, 42, 42, 0]
        assert (await describe(client, operation=99)).error_code == ErrorCode.INVALID_REQUEST
        [result] = (await delete(client, resource_type_filter=0)).filter_results
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert len((await describe(client)).resources) == 1

    run(story())


def test_more_rules_than_one_command_takes_are_all_created() -> None:
    async def story() -> None:
        world = await guarded()
        assert set(await create(world.client, *(creation(f"t{n}") for n in range(1201)))) == {0}
        assert len(world.node.store.image.access) == 1201
        [result] = (await delete(world.client, resource_name_filter="t7")).filter_results
        assert len(result.matching_acls) == 1

    run(story())


def test_a_filter_that_matches_every_rule_deletes_them_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller does nothing else while it decides a command, so no command may delete a hundred thousand
    rules."""
    sizes: list[int] = []
    decide = DeleteAcls.decide

    def counted(self: DeleteAcls, state: ControllerState) -> Decision[DeleteAclsReply]:
        decision = decide(self, state)
        sizes.append(len(decision.records))
        return decision

    monkeypatch.setattr(DeleteAcls, "decide", counted)

    async def story() -> None:
        world = await guarded()
        await create(world.client, *(creation(f"t{n}") for n in range(1201)))
        [result] = (await delete(world.client)).filter_results
        assert sorted(each.resource_name for each in result.matching_acls) == sorted(f"t{n}" for n in range(1201))
        assert len(world.node.store.image.access) == 0

    run(story())
    assert max(sizes) <= 500
    assert sum(sizes) == 1201


def test_a_rule_that_two_filters_match_is_told_for_both() -> None:
    async def story() -> None:
        world = await guarded()
        await create(world.client, creation("a"), creation("b"))
        usual = {"resource_type_filter": ANY, "principal_filter": None, "host_filter": None}
        usual |= {"operation": ANY, "permission_type": ANY, "pattern_type_filter": ANY}
        filters = [DeleteAclsFilter(resource_name_filter=name, **usual) for name in (None, "b", "c")]
        answer = await world.client.ask(DeleteAclsRequest(filters=filters), DeleteAclsResponse, 3)
        told = [[each.resource_name for each in result.matching_acls] for result in answer.filter_results]
        assert told == [["a", "b"], ["b"], []]

    run(story())


def test_who_changes_rules_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        world = await guarded()
        await create(world.client, creation(), creation(""))
        await delete(world.client)

    caplog.set_level(logging.INFO, "chronik.authorizer")
    run(story())
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "chronik.authorizer"]
    changes = [(line["action"], line["principal"], line["rule"]) for line in lines if "api" not in line]
    rule = "ALLOW User:ANONYMOUS WRITE on TOPIC orders from *"
    assert changes == [("created", "User:root", rule), ("deleted", "User:root", rule)]


def test_descriptions_that_are_shared_between_callers_show_nobody_more_than_they_may_see() -> None:
    """Topics are described once for all callers; a caller's permissions are not part of that description."""

    async def story() -> None:
        world = await guarded()
        for name in ("a", "b"):
            await world.create(name)
        await create(world.client, creation("a", operation=READ))
        stranger = Client(world.node)
        asked = MetadataRequest(
            topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
        )
        for client, names in ((world.client, ["a", "b"]), (stranger, ["a"]), (world.client, ["a", "b"])):
            answer: MetadataResponse = await client.ask(asked, MetadataResponse, 10)
            assert [topic.name for topic in answer.topics] == names
            operations = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
            if client is stranger:
                assert operations["a"] == (1 << READ) | (1 << DESCRIBE)
                assert answer.cluster_authorized_operations == 0
            else:
                assert operations["a"] == operations["b"] == 0b110111111000

    run(story())
