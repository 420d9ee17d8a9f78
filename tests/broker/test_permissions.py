"""Each API declares the permissions it needs, and the table of them is printed from these declarations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from chronik.broker.api import served_apis
from chronik.broker.authorizer import AllowEverything
from chronik.broker.context import Context
from chronik.broker.permissions import READ, TOPIC, WRITE, Operation, Resource, table
from chronik.broker.session import Principal, Session

FREE = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "DescribeCluster",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
}


class OnlyReading:
    restricts = True

    def allows(self, session: Session, operation: Operation, kind: Resource, name: str, *_: object) -> bool:
        return operation is READ and (str(session.principal), kind, name) == ("User:alice", TOPIC, "orders")


def context_of(authorizer: Any) -> Context:
    session = Session("PLAINTEXT", 1000)
    session.principal, session.host = Principal("User", "alice"), "10.0.0.7"
    services = SimpleNamespace(authorizer=authorizer)
    return Context(cast(Any, services), cast(Any, SimpleNamespace(session=session)), 3, "client")


def test_every_api_but_eight_needs_a_permission() -> None:
    assert {api.name for api in served_apis().values() if not api.needs} == FREE


def test_the_table_has_one_line_for_each_api() -> None:
    printed = dict(table(served_apis().values()))
    assert len(printed) == len(served_apis())
    assert printed["Produce"] == "WRITE TOPIC, WRITE TRANSACTIONAL_ID (in transactions)"
    assert printed["ApiVersions"] == "nothing"


def test_a_handler_asks_for_its_caller() -> None:
    context = context_of(OnlyReading())
    assert str(context.principal) == "User:alice"
    assert context.client_host == "/10.0.0.7"
    assert context.allows(READ, TOPIC, "orders")
    assert not context.allows(WRITE, TOPIC, "orders")
    assert not context.allows(READ, TOPIC, "secrets")


def test_without_rules_everything_is_allowed() -> None:
    context = context_of(AllowEverything())
    assert all(context.allows(operation, kind, "any") for operation in Operation for kind in Resource)
