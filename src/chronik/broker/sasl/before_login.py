"""Handles frames before a login is complete that are not regular requests: bare tokens, and requests out of turn.

Bare tokens follow SaslHandshake v0: a frame is a message of the mechanism without a header, and so is the response. A
failed login closes the connection. A request out of turn gets Kafka's error if its response has a top-level error code;
then the connection is closed.
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


# Fields of Kafka's error responses with values other than zero and the schema's default.
_NOT_ZERO: Mapping[type[Response], Mapping[str, int]] = {InitProducerIdResponse: {"producer_epoch": -1}}


def answer_token(frame: memoryview, connection: ServerConnection, now_ns: int) -> bytes | Awaitable[None]:
    """The bare token to send, or a wait without a response before the connection is closed."""
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
    """The response to a request during a login. Raises the fault if its API has no top-level error code."""
    if not any(field.name == "error_code" and version in field.versions for field in response.fields):
        raise fault
    made: Response = zero_struct(response)
    made.error_code = ErrorCode.ILLEGAL_SASL_STATE  # type: ignore[attr-defined]
    for name, value in _NOT_ZERO.get(response, {}).items():
        setattr(made, name, value)
    connection.end_with_answer(str(fault))
    return made
