"""Finds the quota of a caller: that of the first of eight entities that has one, in Kafka's order. Pure.

A quota of a user is shared by all client ids of that user, and a quota of a client id by all its users. A default
applies to each user, or each client id, separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chronik.metadata.commands.alter_client_quotas import CLIENT_ID, CONNECTION_CREATION_RATE, IP, USER
from chronik.metadata.image import QuotaEntity

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Limit(NamedTuple):
    bound: float
    sharers: tuple[str, str]  # the entities that share it: user and client id; "" means any


def client_limit(quotas: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """The quota `key` of a client; None if it has none."""
    for names, sharers in (
        (((CLIENT_ID, client_id), (USER, user)), (user, client_id)),
        (((CLIENT_ID, None), (USER, user)), (user, client_id)),
        (((USER, user),), (user, "")),
        (((CLIENT_ID, client_id), (USER, None)), (user, client_id)),
        (((CLIENT_ID, None), (USER, None)), (user, client_id)),
        (((USER, None),), (user, "")),
        (((CLIENT_ID, client_id),), ("", client_id)),
        (((CLIENT_ID, None),), ("", client_id)),
    ):
        values = quotas.get(names)
        if values is not None and key in values:
            return Limit(values[key], sharers)
    return None


def connection_rate(quotas: Quotas, host: str) -> float | None:
    """The maximum rate of new connections from an address, per second; None: unlimited."""
    for entity in ((IP, host),), ((IP, None),):
        values = quotas.get(entity)
        if values is not None and CONNECTION_CREATION_RATE in values:
            return values[CONNECTION_CREATION_RATE]
    return None
