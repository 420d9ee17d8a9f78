"""From a frame to the handler of its API and version, and from the response to the parts of a frame.

Small requests are decoded, handled and encoded at once, and so are large frames with few elements, such as the records
of one partition. A large frame with many elements is decoded in pieces, a handler that is a generator works in pieces,
and what took more than a turn is encoded in pieces (`turns`). Until the handler has returned, no later request of the
connection starts: requests take effect in the order in which they came.

A frame that Kafka's protocol has no answer for (unknown key, unsupported version, malformed body) raises Unanswerable:
Kafka closes such connections, and so do we.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from struct import Struct as Packing
from struct import error as struct_error
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, final

from chronik.broker.api import Api, Later
from chronik.broker.context import Context
from chronik.broker.errors import OutOfTurn, Unanswerable
from chronik.broker.limits import (
    AT_ONCE_BYTES,
    BRIEF_OBJECT_BYTES_MAX,
    HUGE_AT_ONCE,
    HUGE_BYTES,
    REQUEST_OBJECT_BYTES_MAX,
)
from chronik.broker.quotas.charging import Charge, is_charged
from chronik.broker.rule_freshness import RuleFreshness
from chronik.broker.sasl.before_login import answer_token, out_of_turn
from chronik.broker.session import Stage
from chronik.broker.turns import PIECES_FIRST, Turns
from chronik.metadata.errors import MetadataError
from chronik.runtime.buggify import IN_PIECES
from chronik.runtime.pieces import Work
from chronik.storage.unread import Unread
from chronik.wire.compiler import (
    TooMany,
    brief_decoder_of,
    decoder_of,
    encoder_of,
    pieces_decoder_of,
    pieces_encoder_of,
)
from chronik.wire.errors import Malformed
from chronik.wire.framing import SCRATCH_BYTES
from chronik.wire.notation import Struct
from chronik.wire.primitives import TAGS_MAX, Refused, read_varint

if TYPE_CHECKING:
    from chronik.broker.connection import ServerConnection
    from chronik.broker.metrics import Histogram
    from chronik.broker.services import Services

API_VERSIONS_KEY = 18
JOINED_BYTES_MAX = 4096  # up to here one copy is cheaper than a second buffer
BARE_TOKENS = Stage.BARE_TOKENS
IN_LOGIN = (Stage.IN_HANDSHAKE, BARE_TOKENS)
PARTS_APART = 512  # of a response that is encoded in pieces: small ones are joined, up to this many
JOINED_TAIL_BYTES_MAX = 256 * 1024
_fixed_header = Packing(">hhih")  # api_key, api_version, correlation_id, length of client_id
HEADER_BYTES = _fixed_header.size
_unpack_header = _fixed_header.unpack_from
_new = tuple.__new__
_size = Packing(">i").pack
_response_start = Packing(">ii").pack  # size, correlation_id
_response_start_flexible = Packing(">iiB").pack  # and an empty tag section

Parts = list[Any]
# None: nothing is sent (produce with acks=0).
Answer = Union[Parts, None, "PartsLater", Awaitable[Parts | None]]


class Dispatcher:
    """One per node. Holds a table (key, version) -> everything needed to serve it, filled as versions are used."""

    def __init__(self, services: Services, apis: dict[int, Api]) -> None:
        self._services = services
        self._apis = apis
        self._metrics = services.metrics
        self._now_ns = services.runtime.clock.monotonic_ns
        self._turns = services.turns
        self._quotas = services.quotas
        self._huge = asyncio.Semaphore(HUGE_AT_ONCE)
        self._served: dict[tuple[int, int], _Served] = {}
        self._freshness = RuleFreshness(services) if services.authorizer.restricts else None

    def answer(self, frame: memoryview, connection: ServerConnection) -> Answer:
        since_ns, session = connection.last_request_ns, connection.session
        is_open = since_ns < session.open_until_ns  # most are: then neither its stage nor its login has to be looked at
        if not is_open and session.stage is BARE_TOKENS:
            return self._answer_token(frame, connection)
        try:
            key, version, correlation_id, client_id_size = _unpack_header(frame)
        except struct_error:
            raise Unanswerable(f"a request of {len(frame)} bytes is shorter than any header") from None
        if not is_open:
            try:
                session.require_served(key, since_ns)
            except OutOfTurn as fault:
                served = self._serve(key, version)
                response = out_of_turn(served.api.response, served.version, fault, connection)
                return served.parts(response, correlation_id, since_ns)
            if self._must_confirm_login(connection):
                return self._confirmed_later(frame, connection)
        served = self._served.get((key, version)) or self._serve(key, version)
        freshness = self._freshness
        if freshness is not None and served.api.needs and not freshness.is_fresh(session.principal, since_ns):
            return self._confirmed_later(frame, connection)
        at = HEADER_BYTES
        client_id = None
        if client_id_size >= 0:
            try:
                client_id = str(frame[at : at + client_id_size], "utf-8")
            except UnicodeDecodeError:
                raise Unanswerable(f"the client id of a {served.api.name} request is not UTF-8") from None
            at += client_id_size
        try:
            if served.request_is_flexible:
                at = at + 1 if not frame[at] else _skip_tags(frame, at)
            if IN_PIECES.is_on and IN_PIECES.fires():
                raise TooMany
            if len(frame) <= AT_ONCE_BYTES:
                request, _ = served.decode(frame, at)
            else:
                request, _ = served.decode_brief(frame, at, BRIEF_OBJECT_BYTES_MAX)
        except TooMany:
            context = Context(self._services, connection, version, client_id, served.api.name)
            work = _decoded_and_handled(served, frame, at, context, self._charge)
            return self._long(served, work, correlation_id, context, is_huge=len(frame) > HUGE_BYTES)
        except (Malformed, Refused, IndexError) as fault:
            raise Unanswerable(str(fault) or "malformed request header") from fault
        context = Context(self._services, connection, version, client_id, served.api.name)
        response = served.handle(request, context)
        if self._quotas.restricts:
            response = self._charge(served, request, len(frame), context, response)
        if type(response) is Later:  # first: what most requests are answered with, and the cheapest check
            return _new(PartsLater, (response, served, correlation_id, since_ns))
        if response is None or isinstance(response, (bytes, Struct)):
            return served.parts(response, correlation_id, since_ns)
        if isinstance(response, asyncio.Future):
            return PartsLater(Later(response, asyncio.Future.result), served, correlation_id, since_ns)
        if type(response) is GeneratorType:
            return self._long(served, response, correlation_id, context)
        return served.parts_in_turns(response, correlation_id, since_ns, self._turns)

    def _answer_token(self, frame: memoryview, connection: ServerConnection) -> Answer:
        if self._must_confirm_login(connection):
            return self._confirmed_later(frame, connection)
        token = answer_token(frame, connection, connection.last_request_ns)
        return [_size(len(token)) + token] if isinstance(token, bytes) else token

    def _charge(self, served: _Served, request: Any, request_bytes: int, context: Context, returned: Any) -> Any:
        """What a handler returned, so that its caller's quotas are charged when the response is there."""
        if not self._quotas.restricts or not is_charged(request):
            return returned
        time_ns = self._now_ns() - context.connection.last_request_ns
        return Charge(self._quotas, served.api, request, request_bytes, context, time_ns)(returned)

    def _must_confirm_login(self, connection: ServerConnection) -> bool:
        """Whether the next message of a login is judged by metadata that may be too old."""
        login, freshness = connection.session.login, self._freshness
        if login is None or freshness is None or connection.session.stage not in IN_LOGIN:
            return False
        principal = login.judged_by_metadata
        return principal is not None and not freshness.is_fresh(principal, connection.last_request_ns)

    def _confirmed_later(self, frame: memoryview, connection: ServerConnection) -> Awaitable[Parts | None]:
        assert self._freshness is not None
        connection.hold_back()
        return self._confirmed(memoryview(bytearray(frame)), connection, self._freshness)

    async def _confirmed(
        self, frame: memoryview, connection: ServerConnection, freshness: RuleFreshness
    ) -> Parts | None:
        """Answers when the quorum's leader has confirmed the rules or the user by which the request is judged."""
        try:
            asked_ns = self._now_ns()
            try:
                await self._services.store.read()
            except MetadataError as fault:
                raise Unanswerable(f"cannot confirm the ACLs and users: {fault}") from fault
            freshness.confirmed(asked_ns)
            login = connection.session.login
            if login is not None and not login.look_again():
                raise Unanswerable("the user's password was set after this login began: the client has to log in again")
            answer = self.answer(frame, connection)
        finally:
            connection.go_on()
        if type(answer) is PartsLater:
            await asyncio.wait([answer.later.future])
            return answer.parts()
        return answer if answer is None or isinstance(answer, list) else await answer

    def _long(
        self, served: _Served, work: Work[Any], correlation_id: int, context: Context, *, is_huge: bool = False
    ) -> Answer:
        """What may take more than a turn: begins with it. Most of it ends here."""
        connection = context.connection
        since_ns = connection.last_request_ns
        try:
            self._turns.step(work, PIECES_FIRST)
        except StopIteration as end:
            response = end.value
            if response is None or isinstance(response, (bytes, Struct)):
                return served.parts(response, correlation_id, since_ns)
            if type(response) is Later:
                return _new(PartsLater, (response, served, correlation_id, since_ns))
            return self._awaited(served, response, correlation_id, since_ns)
        connection.hold_back()
        if is_huge:
            return self._after_others(served, work, correlation_id, since_ns, connection)
        return self._in_turns(served, work, correlation_id, since_ns, connection)

    async def _after_others(
        self, served: _Served, work: Work[Any], correlation_id: int, since_ns: int, connection: ServerConnection
    ) -> Parts | None:
        """Few at a time: what they are decoded into is many times their size, and is not counted before it is there."""
        try:
            await self._huge.acquire()
        except BaseException:
            connection.go_on()
            raise
        return await self._in_turns(served, work, correlation_id, since_ns, connection, self._huge.release)

    async def _in_turns(
        self,
        served: _Served,
        work: Work[Any],
        correlation_id: int,
        since_ns: int,
        connection: ServerConnection,
        handled: Callable[[], None] = lambda: None,
    ) -> Parts | None:
        try:
            response = await self._turns.finish(work)
        finally:
            handled()
            connection.go_on()
        if type(response) is Later:
            await asyncio.wait([response.future])
            response = response.response()
        return await served.parts_in_turns(response, correlation_id, since_ns, self._turns)

    def _awaited(self, served: _Served, response: Awaitable[Any], correlation_id: int, since_ns: int) -> Answer:
        if isinstance(response, asyncio.Future):
            return PartsLater(Later(response, asyncio.Future.result), served, correlation_id, since_ns)
        return served.parts_in_turns(response, correlation_id, since_ns, self._turns)

    def _serve(self, key: int, version: int) -> _Served:
        api = self._apis.get(key)
        if api is None:
            raise Unanswerable(f"API key {key} is not served")
        if version not in api.versions:
            if key != API_VERSIONS_KEY:
                raise Unanswerable(f"{api.name} v{version} is not served, only {api.versions}")
            # A client that asks too new is answered in v0, so that it learns what there is.
            return _Served(api, 0, self._metrics.request(api.name), self._now_ns, unsupported=True)
        timing = self._metrics.request(api.name)
        served = self._served[key, version] = _Served(api, version, timing, self._now_ns)
        return served


@final
class PartsLater(NamedTuple):
    """An answer whose response comes later, and what its bytes need besides."""

    later: Later
    served: _Served
    correlation_id: int
    since_ns: int

    def parts(self) -> Parts | None:
        """Once the response is there."""
        (future, respond, ready), served, correlation_id, since_ns = self
        response = ready if ready is not None and future.exception() is None else respond(future)
        return served.parts(response, correlation_id, since_ns)


class _Served:
    """One API at one version."""

    __slots__ = (
        "api",
        "decode",
        "decode_brief",
        "encode",
        "handle",
        "now_ns",
        "request_is_flexible",
        "response_is_flexible",
        "timing",
        "unsupported",
        "version",
    )

    def __init__(
        self, api: Api, version: int, timing: Histogram, now_ns: Callable[[], int], *, unsupported: bool = False
    ) -> None:
        self.api, self.version, self.unsupported = api, version, unsupported
        self.timing, self.now_ns = timing, now_ns
        self.handle: Any = api.handle
        self.request_is_flexible = version in api.request.flexible
        self.response_is_flexible = version in api.response.flexible and api.key != API_VERSIONS_KEY
        self.decode: Any = _decode_nothing if unsupported else decoder_of(api.request, version)
        self.decode_brief: Any = _decode_nothing if unsupported else partial(_decode_brief, self)
        self.encode = encoder_of(api.response, version)

    def parts(self, response: Any, correlation_id: int, since_ns: int) -> Parts | None:
        """The answer's bytes. Every request that gets this far is counted here, once."""
        if response is None:
            self.timing.took(self.now_ns() - since_ns)
            return None
        if type(response) is bytes:
            body_bytes = len(response)
            if self.response_is_flexible:
                start = _response_start_flexible(body_bytes + 5, correlation_id, 0)
            else:
                start = _response_start(body_bytes + 4, correlation_id)
            parts = [start + response] if body_bytes <= JOINED_BYTES_MAX else [start, response]
        else:
            parts = [b""]
            self.encode(response, parts)
            parts[0] = self._start(sum(map(len, parts)), correlation_id)
        self.timing.took(self.now_ns() - since_ns)
        return parts

    async def parts_in_turns(self, response: Any, correlation_id: int, since_ns: int, turns: Turns) -> Parts | None:
        """As `parts`, for a response that may be long, or has to be awaited or computed first."""
        while not isinstance(response, Struct):
            if hasattr(response, "__await__"):
                response = await response
            elif type(response) is GeneratorType:
                response = await turns.run(response)
            else:
                return self.parts(response, correlation_id, since_ns)
        parts: Parts = [b""]
        await turns.run(_encoded(self.api.response, self.version, response, parts))
        parts[0] = self._start(sum(map(len, parts)), correlation_id)
        self.timing.took(self.now_ns() - since_ns)
        return parts

    def _start(self, body_bytes: int, correlation_id: int) -> bytes:
        if self.response_is_flexible:
            return _response_start_flexible(body_bytes + 5, correlation_id, 0)
        return _response_start(body_bytes + 4, correlation_id)


def _decode_nothing(frame: memoryview, at: int, budget: int = 0) -> tuple[None, int]:
    return None, at


def _decode_brief(served: _Served, frame: memoryview, at: int, budget: int) -> tuple[Any, int]:
    """The decoder, made when it is first needed: most APIs never get a large frame."""
    served.decode_brief = brief_decoder_of(served.api.request, served.version)
    return served.decode_brief(frame, at, budget)  # type: ignore[no-any-return]


def _decoded_and_handled(
    served: _Served, frame: memoryview, at: int, context: Context, charge: Callable[..., Any]
) -> Work[Any]:
    """What a handler returns for a large frame. A handler that works in pieces is part of the work."""
    if served.unsupported:
        return served.api.handle(None, context)
    budget = None if len(frame) <= SCRATCH_BYTES else REQUEST_OBJECT_BYTES_MAX
    try:
        decoded = pieces_decoder_of(served.api.request, served.version)(frame, at, budget)
        request, _, objects_bytes = yield from decoded
    except (Malformed, Refused, IndexError) as fault:
        raise Unanswerable(str(fault) or "malformed request header") from fault
    context.connection.hold_objects(objects_bytes)
    response = charge(served, request, len(frame), context, served.api.handle(request, context))
    if type(response) is GeneratorType:
        response = yield from response
    return response


def _encoded(response_type: type[Struct], version: int, response: Struct, parts: Parts) -> Work[None]:
    """Appends the response's parts, as few of them as can be: each is a call for the transport."""
    apart = 1  # from here on the parts are small ones, not joined yet
    for _ in pieces_encoder_of(response_type, version)(response, parts):
        if len(parts) - apart >= PARTS_APART:
            tail = parts[apart:]
            if Unread not in map(type, tail) and sum(map(len, tail)) <= JOINED_TAIL_BYTES_MAX:
                parts[apart:] = [b"".join(tail)]
            apart = len(parts)
        yield 1


def _skip_tags(frame: memoryview, at: int) -> int:
    count, at = read_varint(frame, at)
    if count > TAGS_MAX:  # two bytes each: a large frame of them would keep the loop busy for seconds
        raise Refused(f"{count} header tags, at most {TAGS_MAX} are allowed")
    for _ in range(count):
        _, at = read_varint(frame, at)
        size_bytes, at = read_varint(frame, at)
        at += size_bytes
        if at > len(frame):
            raise Refused("header tags reach past the frame")
    return at
