"""A group changes its protocol and back while its members read: each record is delivered, and no commit is lost.

The members are restarted one by one with the other group.protocol, as an operator would do it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from chronik.client.admin import groups
from chronik.client.connecting import connect
from chronik.testing import Cluster
from tests.clients.contract import wait_until
from tests.clients.driver import Sent
from tests.clients.drivers.confluent import ConfluentDriver

pytestmark = pytest.mark.long

MEMBERS = "abc"
ROUNDS = 6  # each restarts one member
RECORDS_PER_ROUND = 60


@contextmanager
def readers(cluster: Cluster, protocol: str) -> Iterator[ConfluentDriver]:
    driver = ConfluentDriver(cluster.bootstrap, group_protocol=protocol)
    try:
        yield driver
    finally:
        driver.close()


def test_members_change_their_protocol_one_by_one_and_back_while_all_read(cluster: Cluster) -> None:
    topic, group = "migrated", "migrating"
    sent: set[str] = set()
    seen: set[str] = set()
    with readers(cluster, "classic") as classic, readers(cluster, "consumer") as consumer:
        drivers = dict.fromkeys(MEMBERS, classic)
        classic.produce(topic, [Sent("first", partition=0)])  # that creates the topic
        sent.add("first")
        for member in MEMBERS:
            classic.join(member, group, topic)
        wait_until(lambda: owned(drivers) == [0, 1, 2], "every partition has an owner")
        for number in range(ROUNDS):
            member = MEMBERS[number % len(MEMBERS)]
            values = {f"{number} {n}" for n in range(RECORDS_PER_ROUND)}
            classic.produce(topic, [Sent(value, partition=n % 3) for n, value in enumerate(sorted(values))])
            sent |= values
            wait_until(lambda: read(drivers) | seen >= sent, "everything so far is delivered")  # noqa: B023
            for each, driver in drivers.items():
                driver.commit(each)
            seen |= read(drivers)
            drivers[member].leave(member)
            drivers[member] = consumer if drivers[member] is classic else classic
            drivers[member].join(member, group, topic)
            wait_until(lambda: owned(drivers) == [0, 1, 2], "every partition has an owner again")
            assert kind_of(cluster, group) == ("consumer" if consumer in drivers.values() else "classic")
        for member, driver in drivers.items():
            driver.leave(member)
    assert seen == sent


def owned(drivers: dict[str, ConfluentDriver]) -> list[int]:
    return sorted(partition for member, driver in drivers.items() for partition in driver.assignment(member))


def read(drivers: dict[str, ConfluentDriver]) -> set[str]:
    return {record.value for member, driver in drivers.items() for record in driver.received(member) if record.value}


def kind_of(cluster: Cluster, group: str) -> str:
    async def ask() -> str:
        async with connect(cluster.bootstrap) as client:
            return (await groups.describe(client, group)).group_type

    return asyncio.run(ask())
