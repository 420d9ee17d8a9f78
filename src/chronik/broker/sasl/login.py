"""The login of one connection: the current mechanism, and the effect of its result on the session.

If logins expire, a login may be renewed on the same connection (KIP-368): with the same mechanism and the same
principal, at most once a second. Pure, except that the listener's `logins` counts and logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.broker.errors import Unanswerable
from chronik.broker.sasl.mechanism import Challenge, LoginRefused, ServerMechanism
from chronik.broker.session import NEVER_NS, Principal, Session, Stage
from chronik.runtime.units import NS_PER_MS, NS_PER_S
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.sasl.logins import ListenerLogins

RENEWAL_PAUSE_NS: Final = NS_PER_S  # Kafka's minimum between two renewals


class Step(NamedTuple):
    token: bytes
    lifetime_ms: int = 0  # of the login that this step completes; 0: not complete, or unlimited


class Login:
    __slots__ = ("_is_renewal", "_logins", "_mechanism", "_name", "_renewed_ns", "_session")

    def __init__(self, logins: ListenerLogins, session: Session) -> None:
        self._logins, self._session = logins, session
        self._mechanism: ServerMechanism | None = None  # from a handshake to the end of its login
        self._name = ""  # name of the last chosen mechanism
        self._is_renewal = False
        self._renewed_ns: int | None = None  # start of the last renewal

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._logins.mechanisms

    @property
    def judged_by_metadata(self) -> Principal | None:
        """The principal, if the next message completes a login that depends on the metadata."""
        return None if self._mechanism is None else self._mechanism.judged_by_metadata

    def look_again(self) -> bool:
        """The metadata was confirmed, and may have changed since the login began. False: the client must begin
        again."""
        return self._mechanism is None or self._mechanism.look_again()

    @property
    def refusal_delay_s(self) -> float:
        return self._logins.refusal_delay_ms / 1000

    def begin(self, name: str, now_ns: int, *, is_bare: bool) -> ErrorCode:
        """A handshake: NONE, or the error if this mechanism cannot begin now. `is_bare`: tokens follow without
        headers."""
        session = self._session
        self._is_renewal = session.stage in (Stage.AUTHENTICATED, Stage.EXPIRED)
        if self._is_renewal and not self._may_renew(now_ns):
            if session.stage is Stage.EXPIRED:
                raise Unanswerable(f"the login on {session.listener} has ended, and was renewed less than a second ago")
            return ErrorCode.ILLEGAL_SASL_STATE
        if name not in self.mechanisms:
            self._logins.refused(session.host, LoginRefused("the mechanism is not enabled"), name)
            if self._is_renewal:
                raise Unanswerable(f"a login on {session.listener} is renewed by its own mechanism, {self._name}")
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM
        is_other = self._is_renewal and name != self._name
        self._mechanism = None if is_other else self._logins.start(name)
        if self._is_renewal:
            self._renewed_ns = now_ns
        if not is_other:
            self._name = name
        session.begin_handshake(is_bare=is_bare)
        return ErrorCode.NONE

    def step(self, message: bytes, now_ns: int) -> Step:
        """Processes one message of the client. Raises LoginRefused; then the connection must be closed."""
        session, mechanism = self._session, self._mechanism
        if mechanism is None:
            raise Unanswerable(f"a login on {session.listener} is renewed by its own mechanism, {self._name}")
        try:
            outcome = mechanism.step(message)
            if isinstance(outcome, Challenge):
                return Step(outcome.token)
            principal = Principal("User", outcome.user)
            if self._is_renewal and principal != session.principal:
                before = f"{session.principal.type}.{session.principal.name}"
                raise LoginRefused(
                    f"Cannot change principals during re-authentication from {before}: "
                    f"{principal.type}.{principal.name}",
                    outcome.user,
                )
        except LoginRefused as refusal:
            self._mechanism = None
            self._logins.refused(session.host, refusal, mechanism.name)
            raise
        self._mechanism = None
        lifetime_ms = self._lifetime_ms(mechanism.name, outcome.expires_ms)
        until_ns = NEVER_NS if lifetime_ms is None else now_ns + lifetime_ms * NS_PER_MS
        session.logged_in(principal, until_ns, has_token=outcome.has_token)
        self._logins.accepted()
        return Step(outcome.token, lifetime_ms or 0)

    def _lifetime_ms(self, mechanism: str, expires_ms: int | None) -> int | None:
        """The lifetime of a login that completes now: until its credential expires, and at most as configured for the
        mechanism. None: as long as the connection."""
        set_ms = self._logins.settings.reauth_ms.get(mechanism, 0) or None
        left_ms = None if expires_ms is None else self._logins.left_ms(expires_ms)
        return min((each for each in (set_ms, left_ms) if each is not None), default=None)

    def _may_renew(self, now_ns: int) -> bool:
        if self._session.open_until_ns >= NEVER_NS:
            return False
        return self._renewed_ns is None or now_ns - self._renewed_ns >= RENEWAL_PAUSE_NS
