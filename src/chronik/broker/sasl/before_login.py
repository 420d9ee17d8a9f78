"""What a connection may send before its login is complete, besides requests that have handlers: bare tokens, and
requests that come out of turn.

Bare tokens follow SaslHandshake v0: a frame is a message of the mechanism, without a header, and so is its answer. A
login that fails is told by the end of the connection. A request out of turn gets Kafka's error where its response has
one for the whole; then the connection ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from chronik.broker.errors import OutOfTurn, Unanswerable
from chronik.broker.sasl.mechanism import LoginRefused
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdResponse
from chronik.wire.notation import Response, zero_struct

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection


# Fields of Kafka's error responses that are neither zero nor what the schema has for a default.
_NOT_ZERO: Mapping[type[Response], Mapping[str, int]] = {InitProducerIdResponse: {"producer_epoch": -1}}


def answer_token(frame: memoryview, connection: ServerConnection, now_ns: int) -> bytes | Awaitable[None]:
    """The bare token that answers this one, or a wait without an answer before the connection ends."""
    login = connection.session.login
    if login is None:
        raise Unanswerable("a token on a listener without logins")
    try:
        step = login.step(bytes(frame), now_ns)
    except LoginRefused:
        connection.end_with_answer("its login failed")
        return _nothing_after(login.refusal_delay_s)
    return step.token


async def _nothing_after(delay_s: float) -> None:
    await asyncio.sleep(delay_s)


def out_of_turn(response: type[Response], version: int, fault: OutOfTurn, connection: ServerConnection) -> Response:
    """The answer to a request in the midst of a login. Raises the fault if its API has none for the whole request."""
    if not any(field.name == "error_code" and version in field.versions for field in response.fields):
        raise fault
    made: Response = zero_struct(response)
    made.error_code = ErrorCode.ILLEGAL_SASL_STATE  # type: ignore[attr-defined]
    for name, value in _NOT_ZERO.get(response, {}).items():
        setattr(made, name, value)
    connection.end_with_answer(str(fault))
    return made
