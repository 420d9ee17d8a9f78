"""The logins of one listener: creates the mechanism of each login, and counts and logs the results.

Settings and SCRAM credentials that an operator changes at run time apply to the next login. Log lines contain user and
mechanism and never a secret; for each peer and cause, the first, 10th, 100th failure and so on are logged.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chronik.broker.sasl.mechanism import LoginRefused, ServerMechanism
from chronik.broker.sasl.oauthbearer import OAuthBearerServer
from chronik.broker.sasl.plain import PlainServer
from chronik.broker.sasl.scram import Known, ScramServer
from chronik.metadata.image import Image, ScramCredential, ScramKey
from chronik.raft.refusals import Refusals
from chronik.wire.oauthbearer import OAUTHBEARER
from chronik.wire.sasl_clients import NONCE_CHARS, PLAIN, nonce_of
from chronik.wire.scram import KINDS, ScramKind

if TYPE_CHECKING:
    from chronik.broker.delegation_tokens import DelegationTokens
    from chronik.broker.live_settings import LiveSettings
    from chronik.broker.metrics import Metrics
    from chronik.broker.settings.sasl import SaslListener
    from chronik.broker.signing_keys import SigningKeys
    from chronik.runtime.interfaces import Clock, Randomness

log = logging.getLogger("chronik.broker.sasl")

NAME_CHARS_SHOWN: Final = 100  # of a user's name in a log line, because unauthenticated clients choose it


class ScramUsers:
    """The metadata's information about users, for all listeners of a node."""

    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image
        self._seen: object = None  # the credentials of the last lookup
        self._looks: dict[int, list[ScramCredential]] = {}  # of `_seen`, by mechanism

    def known(self, kind: ScramKind, user: str) -> Known:
        image = self._image()
        looks = self._looks_of(image).get(kind.number, [])
        # Selects the user whose style a made-up credential imitates.
        drawn = hmac.digest(image.scram_secret, user.encode(), "sha256")
        look = looks[int.from_bytes(drawn[:8]) % len(looks)] if looks else None
        return Known(image.scram.get(ScramKey(user, kind.number)), look, image.scram_secret)

    def _looks_of(self, image: Image) -> dict[int, list[ScramCredential]]:
        """Cached until credentials change, because logins are more frequent than changes."""
        if image.scram is not self._seen:
            self._looks = {}
            for key, credential in sorted(image.scram.items()):
                self._looks.setdefault(key.mechanism, []).append(credential)
            self._seen = image.scram
        return self._looks


class ListenerLogins:
    def __init__(
        self,
        listener: str,
        live_settings: LiveSettings,
        users: ScramUsers,
        randomness: Randomness,
        clock: Clock,
        metrics: Metrics,
        tokens: DelegationTokens,
        signing_keys: SigningKeys | None = None,
    ) -> None:
        """`signing_keys` is for OAUTHBEARER. A listener without keys at the start does not support it."""
        self._listener, self._live_settings = listener, live_settings
        self._users, self._randomness, self._clock, self._metrics = users, randomness, clock, metrics
        self._tokens = tokens
        self._signing_keys = signing_keys
        self._refusals = Refusals(log)

    @property
    def settings(self) -> SaslListener:
        return self._live_settings.now.sasl_listeners[self._listener]

    @property
    def mechanisms(self) -> tuple[str, ...]:
        named = self.settings.mechanisms
        return tuple(each for each in named if each != OAUTHBEARER or self._signing_keys is not None)

    def left_ms(self, expires_ms: int) -> int:
        """Time left until this wall time; 0 if it is past."""
        return max(0, expires_ms - self._clock.wall_ms())

    @property
    def refusal_delay_ms(self) -> int:
        return self._live_settings.now.connection_failed_authentication_delay_ms

    def start(self, name: str) -> ServerMechanism:
        """Creates the mechanism for one login on this listener."""
        if name == PLAIN:
            return PlainServer(self.settings.passwords)
        if name == OAUTHBEARER and self._signing_keys is not None:
            return OAuthBearerServer(self._signing_keys.verify)
        kind = KINDS[name]
        nonce = nonce_of(self._randomness.bytes(NONCE_CHARS))
        tokens = self._tokens
        token_lookup = (lambda token_id: tokens.known(kind, token_id)) if tokens.is_enabled else None
        return ScramServer(kind, lambda user: self._users.known(kind, user), nonce, token_lookup)

    def accepted(self) -> None:
        self._metrics.logins += 1

    def refused(self, host: str, refusal: LoginRefused, mechanism: str) -> None:
        self._metrics.logins_refused += 1
        user = f" of user {refusal.user[:NAME_CHARS_SHOWN]!r}" if refusal.user else ""
        what = f"login by {mechanism[:NAME_CHARS_SHOWN]!r} on {self._listener}{user}: {refusal.reason}"
        self._refusals.note("login from", host, what)
