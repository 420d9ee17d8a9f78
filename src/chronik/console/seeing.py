"""Which topics and groups, and whether nodes, a user may see in what the console gathered with its own permissions.

Without logins that is everything. Otherwise the brokers decide: a name is visible if they list it for this user, and
nodes are if they describe the quorum for this user (DESCRIBE on the cluster).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.admin import groups, quorum
from chronik.client.errors import ClientError
from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from chronik.console.app import Console
    from chronik.console.sessions import Session

AGE_S: Final = 10.0
LIMIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Visible:
    """None: everything."""

    topics: frozenset[str] | None = None
    groups: frozenset[str] | None = None
    cluster: bool = True  # nodes, and numbers of the whole cluster

    def topic(self, name: str | None) -> bool:
        return name is None or self.topics is None or name in self.topics

    def group(self, name: str | None) -> bool:
        return name is None or self.groups is None or name in self.groups

    def item(self, topic: str | None, group: str | None) -> bool:
        """Something about a topic, a group, or else the cluster."""
        if topic is None and group is None:
            return self.cluster
        return self.topic(topic) and self.group(group)


EVERYTHING: Final = Visible()


async def require_cluster(console: Console, session: Session) -> None:
    """Raises FORBIDDEN."""
    if not (await visible(console, session)).cluster:
        raise ConsoleError("FORBIDDEN", "you may not see the nodes", "it takes DESCRIBE on the cluster")


async def visible(console: Console, session: Session) -> Visible:
    """What the brokers do not tell in time is not visible."""
    if session.user is None:
        return EVERYTHING
    known: dict[Session, tuple[float, Visible]] = console.extras.setdefault("visible", {})
    for each in [each for each in known if each.is_over]:
        del known[each]
    if session in known and known[session][0] > time.monotonic() - AGE_S:
        return known[session][1]
    cluster = console.clients.of(session).cluster
    topics: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    sees_cluster = False
    try:
        async with asyncio.timeout(LIMIT_S):
            topics = frozenset((await cluster.refresh(None)).topics)
            listed = frozenset(each.group_id for each in await groups.list_all(cluster))
            await quorum.describe(cluster)
            sees_cluster = True
    except (ClientError, TimeoutError):
        pass
    known[session] = time.monotonic(), Visible(topics, listed, sees_cluster)
    return known[session][1]
