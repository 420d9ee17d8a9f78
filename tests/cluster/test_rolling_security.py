"""Security that changes while a cluster serves: from PLAINTEXT to SASL_SSL with access rules; the password of brokers.

The steps are those of docs/how-to/secure.md. Nodes are processes with the files of `chronik init`; after each change of
a file its node is restarted, and the next one waits until every replica is in sync. No produce may fail, and no record
may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from chronik.security.client_settings import Access, librdkafka, scram_jaas
from chronik.testing.cluster_files import Place, plan_open, plan_secured
from tests.cluster.from_files import FromFiles, free_places
from tests.cluster.load import PARTITIONS, PATIENCE_S, Load, check_complete, eventually, read_all

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("uncomplaining_nodes")]

NODES = (1, 2, 3)
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
Changes = Callable[[int], Mapping[str, str | None]]


class At:
    """One address of the cluster, for clients."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def wait_for_replicas(admin: AdminClient) -> None:
    """As the guide says: no under-replicated partition, before the next node."""

    def are_full() -> bool:
        topics = admin.list_topics(timeout=PATIENCE_S).topics.values()
        return all(set(each.isrs) == set(each.replicas) for topic in topics for each in topic.partitions.values())

    eventually(are_full, "all replicas in sync")


def roll(cluster: FromFiles, admin: AdminClient, load: Load, changes: Changes) -> None:
    """One round: every node gets its changes and a restart, and the load goes on meanwhile."""
    for node_id in NODES:
        cluster.change(node_id, changes(node_id))
        cluster.restart(node_id)
        wait_for_replicas(admin)
        load.wait_for_more()


def put_user(admin: AdminClient, user: str, password: str, mechanism: ScramMechanism) -> None:
    change = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode())
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(PATIENCE_S)


def new_topic(admin: AdminClient, name: str) -> str:
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(PATIENCE_S)
    return name


def ended(load: Load, at: At, client: Mapping[str, str]) -> None:
    load.stop()
    assert not load.failures, load.failures[:3]
    check_complete(load, read_all(at, load.topic, client=client))


def test_a_cluster_under_load_becomes_secured_node_by_node(tmp_path: Path) -> None:
    """An operator of an open cluster must not need an outage to close it."""
    places = free_places(3)
    secured_places = free_places(3)
    plan = plan_open(tmp_path / "open", places, "a secret of the quorum")
    plan.write()
    other = plan_secured(tmp_path / "secured", secured_places, ["app"])
    other.write()
    password = {access.user: access.password for access in other.accesses} | {"broker": "a password of brokers"}
    open_at, secured_at = At(plan.bootstrap), At(other.bootstrap)

    def login(user: str) -> dict[str, str]:
        access = Access(secured_at.bootstrap, user, password[user], str(tmp_path / "secured/ca.pem"))
        return {**librdkafka(access), "log_level": "0"}

    def listening(*, node_id: int, old: bool) -> dict[str, str]:
        """The listeners of a node, with or without the old one."""
        names = {"PLAINTEXT": places[node_id - 1], "SASL_SSL": secured_places[node_id - 1]}
        shown = [f"{name}://{place.address}" for name, place in names.items() if old or name != "PLAINTEXT"]
        protocols = [f"{name}:{name}" for name in names if old or name != "PLAINTEXT"]
        return {
            "listeners": ",".join([*shown, f"CONTROLLER://{places[node_id - 1].quorum_address}"]),
            "advertised.listeners": ",".join(shown),
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
        }

    def with_new_listener(node_id: int) -> dict[str, str]:
        home = tmp_path / f"secured/node-{node_id}"
        return {
            **listening(node_id=node_id, old=True),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram_jaas("broker", password["broker"]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(home / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(home / "ca.pem"),
        }

    with FromFiles(plan.server_files) as cluster:
        admin = AdminClient({"bootstrap.servers": open_at.bootstrap, "log_level": "0"})
        for user in ("admin", "broker", "app"):
            put_user(admin, user, password[user], ScramMechanism.SCRAM_SHA_512)
        before = Load(open_at, new_topic(admin, "before"))
        roll(cluster, admin, before, with_new_listener)
        roll(cluster, admin, before, lambda _: {"inter.broker.listener.name": "SASL_SSL"})
        # The clients move: both listeners serve meanwhile.
        admin = AdminClient(login("admin"))
        after = Load(secured_at, new_topic(admin, "after"), client=login("app"))
        after.wait_for_more()
        ended(before, open_at, {})
        roll(cluster, admin, after, lambda node_id: listening(node_id=node_id, old=False))
        rules: dict[str, str | None] = {
            "authorizer.class.name": STANDARD,
            "super.users": "User:admin;User:broker",
            "allow.everyone.if.no.acl.found": "true",
        }
        roll(cluster, admin, after, lambda _: rules)
        allow(admin, "User:app", "after")
        roll(cluster, admin, after, lambda _: {"allow.everyone.if.no.acl.found": "false"})
        print(f"longest pause of a partition: {before.longest_pause_ms()} ms, {after.longest_pause_ms()} ms")
        ended(after, secured_at, login("admin"))
        check_complete(before, read_all(secured_at, "before", client=login("admin")))


def allow(admin: AdminClient, principal: str, topic: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for done in admin.create_acls([binding]).values():
        done.result(PATIENCE_S)


def test_the_password_of_the_brokers_changes_under_load(tmp_path: Path) -> None:
    """Both passwords are valid while nodes restart, each for a mechanism of its own."""
    places: list[Place] = free_places(3)
    plan = plan_secured(tmp_path, places, ["app"])
    plan.write()
    admin_access, app_access = plan.accesses
    at = At(plan.bootstrap)
    prefix = "listener.name.sasl_ssl"
    with FromFiles(plan.server_files) as cluster:
        admin = AdminClient({**librdkafka(admin_access), "log_level": "0"})
        load = Load(at, new_topic(admin, "app-orders"), client=librdkafka(app_access))
        load.wait_for_more()
        put_user(admin, "broker", "another password", ScramMechanism.SCRAM_SHA_256)
        changed: dict[str, str | None] = {
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram_jaas("broker", "another password"),
            f"{prefix}.scram-sha-512.sasl.jaas.config": None,
        }
        roll(cluster, admin, load, lambda _: changed)
        deletion = UserScramCredentialDeletion("broker", ScramMechanism.SCRAM_SHA_512)
        for done in admin.alter_user_scram_credentials([deletion]).values():
            done.result(PATIENCE_S)
        # New connections between brokers, in both directions, without the old password.
        roll(cluster, admin, load, lambda _: {})
        print(f"longest pause of a partition: {load.longest_pause_ms()} ms")
        ended(load, at, librdkafka(admin_access))
