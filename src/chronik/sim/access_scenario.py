"""Three complete nodes with an authorizer. Rules, users, delegation tokens and quotas change while nodes fail. Callers
log in with valid and invalid passwords and tokens, and send allowed and denied requests. No principal is a super user,
so replication needs rules as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from chronik.broker.settings.access import STANDARD
from chronik.client.admin.topics import NewTopic
from chronik.metadata.commands.create_acls import AclRule, CreateAcls
from chronik.raft.config import RaftConfig
from chronik.sim.access_clients import OPERATOR, QUESTIONS, TOPICS, AccessClients, founding_rules, subject_of
from chronik.sim.access_tokens import LOGIN_TOKEN_SETTINGS
from chronik.sim.access_users import LISTENER, PASSWORDS, PORT, USERS, UserSessions, set_first_users
from chronik.sim.broker_scenarios import RecordsScenario, create_topic, run_in
from chronik.sim.checkers.access import SESSION_MS
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import ACCESS_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.history import History
from chronik.sim.programs import broker_programs, host_of
from chronik.sim.record_clients import routing_of
from chronik.sim.scenario import PACES_MS, START_MS_MAX, Clients, require
from chronik.sim.wire_clients import make_client
from chronik.sim.world import World
from chronik.wire.scram import SHA_256

SUBJECT_COUNT = 3


class AccessScenario(RecordsScenario):
    name = "access"
    checkers: Sequence[type[Checker]] = ACCESS_CHECKERS
    brokers: ClassVar[dict[str, object]] = {
        **RecordsScenario.brokers,
        "authorizer_class_name": STANDARD,
        "broker_session_timeout_ms": SESSION_MS,
        "listener_security_protocol_map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT",
        "sasl_enabled_mechanisms": SHA_256.name,
        **LOGIN_TOKEN_SETTINGS,
    }

    def build(self, world: World) -> SimCluster:
        """In half of the worlds snapshots are frequent, so that a node that was away gets its rules from one."""
        random, brokers, raft_config = world.random("snapshots"), dict(self.brokers), RaftConfig()
        if random.random() < 0.5:
            brokers["metadata_log_max_record_bytes_between_snapshots"] = random.choice((500, 2000))
            raft_config = RaftConfig(trailing_entries=random.choice((0, 5)))
        programs = broker_programs(self.node_count, brokers, raft_config=raft_config, listeners=((LISTENER, PORT),))
        return SimCluster(world, self.node_count, programs, raft_directory="/data/raft")

    def prepare(self, world: World, cluster: SimCluster) -> None:
        self._found(world, cluster)
        operator = make_client(cluster, OPERATOR)

        async def create() -> None:
            routing = routing_of(cluster, operator)
            for name in TOPICS:
                await create_topic(routing, NewTopic(name, partition_count=1, replication_factor=3))
            await routing.close()
            await set_first_users(await operator.to(min(cluster.machines)))

        run_in(world, operator, create())

    def _found(self, world: World, cluster: SimCluster) -> None:
        """Submits the first rules on the controller itself: no client is allowed to create rules yet."""
        leader = cluster.leader()
        assert leader is not None
        assert leader.program is not None
        store = leader.program.store
        assert store is not None
        rules = [
            AclRule(
                resource_type=rule.kind,
                resource_name=rule.name,
                pattern_type=rule.pattern,
                principal=rule.principal,
                host=rule.host,
                operation=rule.operation,
                permission_type=rule.permission,
            )
            for rule in founding_rules([host_of(node_id) for node_id in cluster.machines])
        ]
        assert leader.loop is not None
        task = leader.loop.create_task(store.submit(CreateAcls(rules=rules)))
        require(world, task.done, START_MS_MAX, "the first rules are created")
        assert not any(result.error_code for result in task.result().results)

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS[:2])
        return AccessClients(cluster, history, subject_count=SUBJECT_COUNT, think_ms=think_ms)

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        """Every subject asks every node once more, and every password is tried at every node."""
        clients = AccessClients(cluster, history, subject_count=0, think_ms=(0, 0))
        for number in range(1, SUBJECT_COUNT + 1):
            subject = make_client(cluster, subject_of(number))

            async def ask() -> None:
                for node_id in cluster.machines:
                    for question in QUESTIONS:
                        await clients.ask(subject, node_id, question)  # noqa: B023 - it runs before the next is made

            run_in(world, subject, ask())
        client = make_client(cluster, "user-auditor")
        sessions = UserSessions(cluster, history, client)

        async def log_in() -> None:
            for node_id in cluster.machines:
                for user in USERS:
                    for password in PASSWORDS:
                        connection = await sessions.log_in(node_id, user, password)
                        if connection is not None:
                            connection.close()

        run_in(world, client, log_in())
