"""How old the access rules and the users may be by which a node allows requests and logins: broker.session.timeout.ms.

A node decides by its own metadata image. With a lease the image shows every change that was acknowledged. Without one,
as during an election of the quorum's leader, the node goes on by the rules that it has, because denied clients do not
try again. After broker.session.timeout.ms without a lease the controller no longer counts on this node either. From
then on a request waits until the leader of the quorum has confirmed the image; if it does not, the connection is
closed, and the client goes to another node. So does the last message of a login by SCRAM, because a session that an old
password has opened would outlive the loss of the quorum. If the password was set since the first message, the
connection is closed as well, because the proof that the client sends belongs to the old salt.

Super users do not depend on rules, so they do not wait, and neither do their logins: an operator must be able to look
at a cluster without a quorum. Until it has the quorum again, a node accepts the last password of a super user that it
knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.runtime.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.broker.session import Principal

LOOK_EVERY_NS: Final = NS_PER_S // 10  # the lease is not looked at for every request


class RuleFreshness:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._look_ns = 0  # until then nothing is looked at
        self._confirmed_ns: int | None = None  # the image was known to be current

    def is_fresh(self, principal: Principal, now_ns: int) -> bool:
        """For decisions about this principal."""
        if now_ns < self._look_ns:
            return True
        services = self._services
        if services.store.current() is not None:
            self.confirmed(now_ns)
            return True
        settings = services.settings
        stale_ns = settings.broker_session_timeout_ms * NS_PER_MS
        if self._confirmed_ns is not None and now_ns - self._confirmed_ns < stale_ns:
            return True
        policy = settings.access_policy
        return policy is not None and str(principal) in policy.super_users

    def confirmed(self, now_ns: int) -> None:
        """The image of `now_ns` shows every change that was acknowledged before."""
        self._confirmed_ns = now_ns
        self._look_ns = now_ns + LOOK_EVERY_NS
