"""The logins of one listener: makes the mechanism of each login, and counts and logs how logins end.

What the operator changes at run time, settings and SCRAM credentials, holds for the next login. Log lines name user
and mechanism and never a secret; for each peer and cause the first, the 10th, the 100th are logged and so on.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from chronik.broker.sasl.mechanism import LoginRefused, ServerMechanism
from chronik.broker.sasl.plain import PlainServer
from chronik.broker.sasl.scram import Known, ScramServer
from chronik.metadata.image import Image, ScramCredential, ScramKey
from chronik.raft.refusals import Refusals
from chronik.wire.sasl_clients import NONCE_CHARS, PLAIN, nonce_of
from chronik.wire.scram import KINDS, ScramKind

if TYPE_CHECKING:
    from chronik.broker.live_settings import LiveSettings
    from chronik.broker.metrics import Metrics
    from chronik.broker.settings.sasl import SaslListener
    from chronik.runtime.interfaces import Randomness

log = logging.getLogger("chronik.broker.sasl")

NAME_CHARS_SHOWN: Final = 100  # of a user's name in a log line: the stranger chooses it


class ScramUsers:
    """What the metadata says of users, for all listeners of a node."""

    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image
        self._seen: object = None  # the credentials that were looked at last
        self._looks: dict[int, list[ScramCredential]] = {}  # of `_seen`, by mechanism

    def known(self, kind: ScramKind, user: str) -> Known:
        image = self._image()
        looks = self._looks_of(image).get(kind.number, [])
        drawn = hmac.digest(image.scram_secret, user.encode(), "sha256")  # whose style a made-up credential has
        look = looks[int.from_bytes(drawn[:8]) % len(looks)] if looks else None
        return Known(image.scram.get(ScramKey(user, kind.number)), look, image.scram_secret)

    def _looks_of(self, image: Image) -> dict[int, list[ScramCredential]]:
        """Once for each change of credentials: there are many logins and few changes."""
        if image.scram is not self._seen:
            self._looks = {}
            for key, credential in sorted(image.scram.items()):
                self._looks.setdefault(key.mechanism, []).append(credential)
            self._seen = image.scram
        return self._looks


class ListenerLogins:
    def __init__(
        self, listener: str, live_settings: LiveSettings, users: ScramUsers, randomness: Randomness, metrics: Metrics
    ) -> None:
        self._listener, self._live_settings = listener, live_settings
        self._users, self._randomness, self._metrics = users, randomness, metrics
        self._refusals = Refusals(log)

    @property
    def settings(self) -> SaslListener:
        return self._live_settings.now.sasl_listeners[self._listener]

    @property
    def refusal_delay_ms(self) -> int:
        return self._live_settings.now.connection_failed_authentication_delay_ms

    def start(self, name: str) -> ServerMechanism:
        """For one login by one of the listener's mechanisms."""
        if name == PLAIN:
            return PlainServer(self.settings.passwords)
        kind = KINDS[name]
        nonce = nonce_of(self._randomness.bytes(NONCE_CHARS))
        return ScramServer(kind, lambda user: self._users.known(kind, user), nonce)

    def accepted(self) -> None:
        self._metrics.logins += 1

    def refused(self, host: str, refusal: LoginRefused, mechanism: str) -> None:
        self._metrics.logins_refused += 1
        user = f" of user {refusal.user[:NAME_CHARS_SHOWN]!r}" if refusal.user else ""
        what = f"login by {mechanism[:NAME_CHARS_SHOWN]!r} on {self._listener}{user}: {refusal.message}"
        self._refusals.note("login from", host, what)
