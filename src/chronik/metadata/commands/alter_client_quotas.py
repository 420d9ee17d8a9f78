"""Sets and removes quotas of users, client ids and addresses. Each entity of the command is decided alone."""

from __future__ import annotations

from ipaddress import ip_address
from math import isnan

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import NO_QUOTAS, QuotaEntity, View
from chronik.metadata.records import MetadataRecord
from chronik.metadata.snapshot import quota_record
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, boolean, float64, int16, string

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

# Largest value of each key that must be a whole number; None: fractions are allowed.
CLIENT_KEYS: dict[str, int | None] = {
    PRODUCER_BYTE_RATE: 2**63 - 1,
    CONSUMER_BYTE_RATE: 2**63 - 1,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
IP_KEYS: dict[str, int | None] = {CONNECTION_CREATION_RATE: 2**31 - 1}
FRACTION_MAX = 1e-6  # Kafka's tolerance for whole numbers


class AlterClientQuotasReply(Reply):
    entities: list[AlteredEntity]


class AlteredEntity(Struct):
    error_code: int16 = 0
    error_message: string | None = None


class AlterClientQuotas(ControllerCommand[AlterClientQuotasReply]):
    entities: list[EntityChange]
    validate_only: boolean = False

    def decide(self, state: ControllerState) -> Decision[AlterClientQuotasReply]:
        records: list[MetadataRecord] = []
        replies: list[AlteredEntity] = []
        seen: set[QuotaEntity] = set()
        for change in self.entities:
            reply = AlteredEntity()
            replies.append(reply)
            entity = tuple(sorted(((each.type, each.name) for each in change.entity), key=lambda part: part[0]))
            try:
                if entity in seen:
                    refuse(ErrorCode.INVALID_REQUEST, f"{named(entity)} is in the request more than once")
                seen.add(entity)
                records += _alter(state.view, entity, change.ops)
            except MetadataRefused as refused:
                reply.error_code, reply.error_message = refused.error_code, refused.message
        return Decision([] if self.validate_only else records, AlterClientQuotasReply(entities=replies))


class EntityChange(Struct):
    entity: list[EntityPart]
    ops: list[QuotaChange]


class EntityPart(Struct):
    type: string
    name: string | None


class QuotaChange(Struct):
    key: string
    value: float64
    remove: boolean


def named(entity: QuotaEntity) -> str:
    """For messages: `user alice, default client-id`."""
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in entity)


def _alter(view: View, entity: QuotaEntity, ops: list[QuotaChange]) -> list[MetadataRecord]:
    keys = _keys_of(entity)
    asked: dict[str, float | None] = {}
    for op in ops:
        if op.key in asked:
            refuse(ErrorCode.INVALID_REQUEST, f"the quota {op.key} of {named(entity)} is in the request more than once")
        asked[op.key] = None if op.remove else op.value
    before = view.quotas.get(entity, NO_QUOTAS)
    records: list[MetadataRecord] = []
    for key, value in asked.items():
        if value is not None:
            _require_valid(key, value, keys)
        if before.get(key) != value:
            records.append(quota_record(entity, key, value))
    return records


def _keys_of(entity: QuotaEntity) -> dict[str, int | None]:
    """The quotas that an entity may have, with the largest whole number of each; None: fractions are allowed."""
    if not entity:
        refuse(ErrorCode.INVALID_REQUEST, "a quota needs an entity: name a user, a client-id or an ip")
    types = [kind for kind, _ in entity]
    for kind in types:
        if kind not in (USER, CLIENT_ID, IP):
            refuse(ErrorCode.INVALID_REQUEST, f"unknown entity type {kind!r}: use user, client-id or ip")
    if len(set(types)) < len(types):
        refuse(ErrorCode.INVALID_REQUEST, f"{named(entity)} names an entity type more than once")
    if IP not in types:
        return CLIENT_KEYS
    if len(types) > 1:
        refuse(ErrorCode.INVALID_REQUEST, f"{named(entity)}: an ip cannot be combined with a user or a client-id")
    address = entity[0][1]
    if address is not None:
        try:
            ip_address(address)
        except ValueError:
            refuse(ErrorCode.INVALID_REQUEST, f"{address!r} is not an IP address")
    return IP_KEYS


def _require_valid(key: str, value: float, keys: dict[str, int | None]) -> None:
    if key not in keys:
        refuse(ErrorCode.INVALID_REQUEST, f"unknown quota {key!r} of this entity: use one of {', '.join(keys)}")
    if value <= 0 or isnan(value):
        refuse(ErrorCode.INVALID_REQUEST, f"invalid quota {key}={value:g}: use a number above 0")
    largest = keys[key]
    if largest is not None:
        if value > largest:
            refuse(ErrorCode.INVALID_REQUEST, f"invalid quota {key}={value:g}: use {largest} or less")
        if abs(value % 1.0) > FRACTION_MAX:
            refuse(ErrorCode.INVALID_REQUEST, f"invalid quota {key}={value}: it cannot be a fractional value")
