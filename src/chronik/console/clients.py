"""Clients of the cluster, one per user: a user who has logged in acts with their own permissions.

Without logins, all sessions share the console's own client.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, LoginFailed, Refused
from chronik.client.properties import ClientSecurity, Credentials
from chronik.client.routing import ClusterClient
from chronik.console.errors import ConsoleError
from chronik.peer.connections import no_login
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.console.sessions import Session
    from chronik.console.settings import ConsoleSettings
    from chronik.peer.password_login import PasswordLogin
    from chronik.peer.token_login import TokenLogin
    from chronik.runtime.interfaces import Runtime

CLIENT_ID: Final = "chronik-console"
CONNECT_TIMEOUT_MS: Final = 1_500
LOGIN_S: Final = 5.0
USER_CHARS_MAX: Final = 256
PASSWORD_CHARS_MAX: Final = 4_096


@dataclass(slots=True)
class Client:
    cluster: ClusterClient
    login: PasswordLogin | TokenLogin | None
    security: ClientSecurity

    async def close(self) -> None:
        await self.cluster.close()
        if self.login is not None:
            self.login.close()


class Clients:
    def __init__(self, runtime: Runtime, settings: ConsoleSettings) -> None:
        self._runtime, self._settings = runtime, settings
        self.own = self._client(settings.security)
        self._by_session: dict[Session, Client] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def _client(self, security: ClientSecurity) -> Client:
        login = security.login(self._runtime)
        cluster = ClusterClient(
            self._runtime,
            self._settings.bootstrap,
            client_id=CLIENT_ID,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            tls=security.tls,
            login=login or no_login,
        )
        return Client(cluster, login, security)

    def of(self, session: Session) -> Client:
        if session.user is None:
            return self.own
        if session.is_over:  # since the request came
            raise ConsoleError("SIGNED_OUT", "the session has ended", "log in", mode="login")
        return self._by_session[session]

    async def log_in(self, user: str, password: str) -> Client:
        """A client that the brokers have taken for this user. Raises LOGIN_FAILED, or UNREACHABLE."""
        known = self._settings.security.credentials
        assert known is not None
        if not (0 < len(user) <= USER_CHARS_MAX and 0 < len(password) <= PASSWORD_CHARS_MAX):
            raise ConsoleError("LOGIN_FAILED", "user or password is wrong")
        credentials = Credentials(known.mechanism, user, password)
        client = self._client(replace(self._settings.security, credentials=credentials))
        try:
            async with asyncio.timeout(LOGIN_S):
                await client.cluster.to_any()
        except (ClientError, TimeoutError) as fault:
            await client.close()
            if isinstance(fault, LoginFailed) or (
                isinstance(fault, Refused) and fault.kafka_error is ErrorCode.SASL_AUTHENTICATION_FAILED
            ):
                raise ConsoleError("LOGIN_FAILED", "user or password is wrong") from fault
            raise ConsoleError("UNREACHABLE", "no broker could check the password", str(fault)) from fault
        except BaseException:
            await client.close()
            raise
        return client

    def attach(self, session: Session, client: Client) -> None:
        self._by_session[session] = client

    def detach(self, session: Session) -> None:
        """At the end of a session."""
        client = self._by_session.pop(session, None)
        if client is not None:
            task = asyncio.get_running_loop().create_task(client.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for client in [self.own, *self._by_session.values()]:
            await client.close()
