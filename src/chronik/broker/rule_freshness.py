"""Limits the age of the access rules and users that a node applies: broker.session.timeout.ms.

A node decides by its own metadata image. With a lease the image shows every change that was acknowledged. Without one,
as during an election of the quorum's leader, the node continues with its current rules, because denied clients do not
retry. After broker.session.timeout.ms without a lease, the controller no longer considers this node live either. From
then on, a request waits until the quorum's leader has confirmed the image. If that fails, the connection is closed, and
the client tries another node. The last message of a SCRAM login waits as well, because a session that was opened with
an old password would outlive the loss of the quorum. If the password has changed since the first message, the
connection is closed too, because the client's proof belongs to the old salt.

Super users do not depend on rules, so their requests and logins do not wait: an operator must be able to inspect a
cluster without a quorum. Until the quorum is back, a node accepts a super user's last known password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chronik.runtime.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.broker.session import Principal

LOOK_EVERY_NS: Final = NS_PER_S // 10  # the lease is not checked for every request


class RuleFreshness:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._look_ns = 0  # time of the next check
        self._confirmed_ns: int | None = None  # when the image was last known to be current

    def is_fresh(self, principal: Principal, now_ns: int) -> bool:
        """Whether decisions about this principal may use the image."""
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
        """The image at `now_ns` contains every change acknowledged before."""
        self._confirmed_ns = now_ns
        self._look_ns = now_ns + LOOK_EVERY_NS
