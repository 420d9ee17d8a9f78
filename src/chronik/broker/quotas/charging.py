"""Charges a request to its caller's quotas, tells the caller how long to wait, and does not read from it that long.

The response leaves at once, with `throttle_time_ms`; then the connection is muted. A client that fetches more than its
quota allows gets a response without records instead, which does not count, and fetches the same again. Records of a
share group are delivered all the same, since their member holds them. Requests that only nodes send are free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from chronik.broker.api import Api, Later
from chronik.broker.quotas.client_quotas import ClientQuotas
from chronik.runtime.pieces import Work
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from chronik.wire.messages.produce import ProduceRequest
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from chronik.wire.messages.share_fetch import ShareFetchResponse
from chronik.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from chronik.wire.notation import Struct

if TYPE_CHECKING:
    from chronik.broker.context import Context

WAIT_MS_MAX = 2**31 - 1  # what throttle_time_ms can say; a tiny quota and a large request come to more
FREE = frozenset({SaslHandshakeRequest, SaslAuthenticateRequest, WriteTxnMarkersRequest})


class Charge:
    """One request. Call it with what the handler returned; `time_ns` is what the handler has taken until then."""

    __slots__ = ("_api", "_context", "_quotas", "_request", "_request_bytes", "_time_ns")

    def __init__(
        self, quotas: ClientQuotas, api: Api, request: Any, request_bytes: int, context: Context, time_ns: int
    ) -> None:
        self._quotas, self._api, self._request = quotas, api, request
        self._request_bytes, self._context, self._time_ns = request_bytes, context, time_ns

    def __call__(self, returned: Any) -> Any:
        """What the handler returned, so that its response is charged when it is there."""
        if type(returned) is Later:
            return Later(returned.future, lambda _: self._respond(returned.response()))
        if isinstance(returned, asyncio.Future):
            return Later(returned, lambda future: self._respond(future.result()))
        if type(returned) is GeneratorType:
            return self._worked(returned)
        if returned is None or isinstance(returned, (bytes, Struct)):
            return self._respond(returned)
        return self._awaited(returned)

    def _worked(self, work: Work[Any]) -> Work[Any]:
        returned = yield from work
        return self(returned)

    async def _awaited(self, returned: Coroutine[Any, Any, Any]) -> Any:
        return self(await returned)

    def _respond(self, response: Any) -> Any:
        context, request = self._context, self._request
        session, client_id = context.session, context.client_id
        wait_ms = context.throttle_ms
        if not (isinstance(request, ProduceRequest) and response is None):  # acks=0 pays for its bytes alone
            wait_ms = max(wait_ms, self._quotas.took(session, client_id, self._time_ns))
        if isinstance(request, ProduceRequest):
            wait_ms = max(wait_ms, self._quotas.produced(session, client_id, self._request_bytes))
        elif isinstance(response, (FetchResponse, ShareFetchResponse)):
            size_bytes = _size_bytes(response, context.version)
            wait_ms = max(wait_ms, self._quotas.fetched(session, client_id, size_bytes))
        if not wait_ms:
            return response
        wait_ms = min(wait_ms, WAIT_MS_MAX)
        context.connection.mute(wait_ms)
        if isinstance(response, FetchResponse):
            # The session that a full fetch would have begun is not told: the client sends a full fetch again.
            session_id = request.session_id if request.session_epoch > 0 else 0
            return FetchResponse(throttle_time_ms=wait_ms, session_id=session_id, responses=[])
        if type(response) is bytes:
            response, _ = decoder_of(self._api.response, context.version)(memoryview(response), 0)
        if response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = wait_ms
        return response


def is_charged(request: Any) -> bool:
    """A node's own requests are not: a quota must not hold up replication."""
    if isinstance(request, FetchRequest):
        return max(request.replica_id, request.replica_state.replica_id) < 0
    return type(request) not in FREE


def _size_bytes(response: FetchResponse | ShareFetchResponse, version: int) -> int:
    parts: list[Any] = []
    encoder_of(type(response), version)(response, parts)
    return sum(map(len, parts))
