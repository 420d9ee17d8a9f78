"""One request of the API, as its handler sees it, and the table of handlers.

A handler is a coroutine that takes a `Call` and returns a JSON value, a `Change`, or a response. `get`, `ask` and
`change` enter it into ROUTES with the parameters that it takes and the time that it may need. What it raises becomes an
error of the API (`console.app`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chronik.client.errors import ClientError, Refused
from chronik.console.errors import ConsoleError
from chronik.console.parameters import TOPIC_CHARS_MAX, Body, Parameter
from chronik.console.snapshot import Missing
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from starlette.requests import Request

    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Topic, Topology
    from chronik.console.app import Console
    from chronik.console.sessions import Session

LIMIT_S: Final = 10.0  # for a whole answer
PART_S: Final = 2.0  # for a part of it
WITHOUT_CONTROLLER_S: Final = 0.5
RAISED: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
NO_PARAMETERS: Final[Mapping[str, Parameter]] = {}

T = TypeVar("T")


@dataclass(slots=True)
class Call:
    console: Console
    request: Request
    session: Session
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Body
    missing: list[Missing] = field(default_factory=list)
    is_dry: bool = False

    @property
    def cluster(self) -> ClusterClient:
        return self.console.clients.of(self.session).cluster

    async def part(self, name: str, question: Awaitable[T], *, limit_s: float = PART_S) -> T | None:
        """The answer to a part of the call; without one, `missing` says why. What the user may not see, and what does
        not exist, is raised."""
        survey = self.console.observer.snapshot.survey
        if survey is not None:  # brokers hold answers back until there is a controller
            limit_s = min(limit_s, WITHOUT_CONTROLLER_S)
        try:
            async with asyncio.timeout(limit_s):
                return await question
        except TimeoutError:
            self.missing.append(Missing(name, str(survey) if survey else f"no answer within {limit_s:g} s"))
        except Refused as fault:
            if fault.kafka_error in RAISED:
                raise
            self.missing.append(Missing(name, str(fault)))
        except ClientError as fault:
            self.missing.append(Missing(name, str(survey or fault)))
        return None

    def missing_documents(self) -> list[dict[str, str]]:
        return [each.document() for each in dict.fromkeys(self.missing)]

    async def topology(self) -> Topology:
        """Of all topics that the user may see. Without an answer, what was known last; then `missing` says so."""
        if self.session.user is None:
            observer = self.console.observer
            if observer.snapshot.topology_ms:
                if observer.topics_fault is not None:
                    self.missing.append(observer.topics_fault)
                return observer.snapshot.topology
        found = await self.part("the topics", self.cluster.refresh(None), limit_s=5.0)
        return self.cluster.topology if found is None else found

    async def topic(self, name: str) -> Topic:
        """As it is now; or as it was known last, and `missing` says so. Raises TOPIC_NOT_FOUND."""
        if len(name) > TOPIC_CHARS_MAX:
            raise ConsoleError("TOPIC_NOT_FOUND", f"names of topics have at most {TOPIC_CHARS_MAX} characters")
        known = await self.part(f"topic {name}", self.cluster.refresh([name]))
        if known is not None:
            if name in known.topics:
                return known.topics[name]
            fault = known.errors.get(name)
            if fault is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise ConsoleError("FORBIDDEN", f"you may not see topic {name!r}")
            raise await self._not_found(name)
        topology = self.console.observer.snapshot.topology if self.session.user is None else self.cluster.topology
        if name in topology.topics:
            return topology.topics[name]
        raise ConsoleError("UNREACHABLE", f"no broker says what topic {name!r} is")

    async def _not_found(self, name: str) -> ConsoleError:
        from difflib import get_close_matches

        near = get_close_matches(name, list((await self.topology()).topics), n=1, cutoff=0.6)
        return ConsoleError(
            "TOPIC_NOT_FOUND", f"topic {name!r} does not exist", f"did you mean {near[0]!r}?" if near else ""
        )


@dataclass(frozen=True, slots=True)
class Change:
    """What a change did, or would do."""

    command: str
    plan: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    action: str = ""  # for the list of activities, as `topic delete`
    target: str = ""


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    parameters: Mapping[str, Parameter]
    is_change: bool = False
    is_stream: bool = False
    limit_s: float = LIMIT_S


ROUTES: Final[list[Route]] = []


def get(
    path: str,
    *,
    limit_s: float = LIMIT_S,
    is_stream: bool = False,
    more: Mapping[str, Parameter] = NO_PARAMETERS,
    **parameters: Parameter,
) -> Callable[[Handler], Handler]:
    """`more` are parameters that several routes share."""

    def enter(handler: Handler) -> Handler:
        known = {**more, **parameters}
        ROUTES.append(Route("GET", path, handler, known, is_stream=is_stream, limit_s=limit_s))
        return handler

    return enter


def ask(path: str, *, limit_s: float = LIMIT_S) -> Callable[[Handler], Handler]:
    """A POST that changes nothing in the cluster."""

    def enter(handler: Handler) -> Handler:
        ROUTES.append(Route("POST", path, handler, {}, limit_s=limit_s))
        return handler

    return enter


def change(path: str, *, limit_s: float = 60.0) -> Callable[[Handler], Handler]:
    """A POST that changes something, unless `call.is_dry`. The handler returns a Change."""

    def enter(handler: Handler) -> Handler:
        ROUTES.append(Route("POST", path, handler, {}, is_change=True, limit_s=limit_s))
        return handler

    return enter
