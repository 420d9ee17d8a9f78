"""A cluster with SASL_SSL, SCRAM, an authorizer and its own certificates: settings, users and rules, without I/O.

`Cluster(secure=True)` and `chronik init --secure` both use it, so tests run on the same setup as operators:

- Clients and brokers use the listener SASL_SSL. Brokers log in to each other as `broker`.
- The quorum uses TLS with certificates on both sides, and admits only the nodes that it lists by name.
- `admin` and `broker` are super users. Every other user owns the topics, groups and transactional ids whose names begin
  with the user's name and a hyphen.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from chronik.broker.first_users import credential_of
from chronik.broker.settings.access import STANDARD
from chronik.metadata.access import ALL, ALLOW, PREFIXED, AccessRule
from chronik.metadata.commands.alter_scram_credentials import ScramUpsertion
from chronik.security.client_settings import scram_jaas
from chronik.wire.scram import ITERATIONS_MIN, KINDS, salted_password

LISTENER: Final = "SASL_SSL"
OPEN: Final = "PLAINTEXT"
QUORUM: Final = "CONTROLLER"
MECHANISM: Final = "SCRAM-SHA-512"
# Two, so that a password can be changed while the old one stays valid.
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256")
ADMIN, BROKER = "admin", "broker"
PASSWORD_BYTES: Final = 24
SALT_BYTES: Final = 24
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5


def node_name(node_id: int) -> str:
    """The name of a node in its certificate."""
    return f"node-{node_id}"


def new_password() -> str:
    return secrets.token_urlsafe(PASSWORD_BYTES)


def secured(
    open_settings: Mapping[str, str], *, node_count: int, key_store: str, trust_store: str, broker_password: str
) -> dict[str, str]:
    """The settings of a node whose client listener is PLAINTEXT, with SASL_SSL in its place."""
    has_quorum = "controller.listener.names" in open_settings
    made = {
        **open_settings,
        "listener.security.protocol.map": f"{LISTENER}:SASL_SSL" + (f",{QUORUM}:SSL" if has_quorum else ""),
        "inter.broker.listener.name": LISTENER,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": key_store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trust_store,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        f"listener.name.{LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": scram_jaas(BROKER, broker_password),
        "authorizer.class.name": STANDARD,
        "super.users": f"User:{ADMIN};User:{BROKER}",
    }
    if has_quorum:
        made[f"listener.name.{QUORUM.lower()}.ssl.client.auth"] = "required"
        names = (node_name(node_id) for node_id in range(1, node_count + 1))
        made["chronik.quorum.principals"] = ";".join(f"User:CN={name}" for name in names)
    for key in ("listeners", "advertised.listeners"):
        made[key] = made[key].replace(f"{OPEN}://", f"{LISTENER}://")
    return made


def first_users(passwords: Mapping[str, str]) -> list[ScramUpsertion]:
    return [credential(name, password) for name, password in passwords.items()]


def credential(name: str, password: str, mechanism: str = MECHANISM) -> ScramUpsertion:
    kind, salt = KINDS[mechanism], secrets.token_bytes(SALT_BYTES)
    return credential_of(name, kind, salt, ITERATIONS_MIN, salted_password(kind, password, salt, ITERATIONS_MIN))


def first_rules(users: Iterable[str]) -> list[AccessRule]:
    """The permissions of ordinary users. Super users need no rules."""
    return [
        AccessRule(kind, f"{user}-", PREFIXED, f"User:{user}", "*", ALL, ALLOW)
        for user in users
        if user not in (ADMIN, BROKER)
        for kind in (TOPIC, GROUP, TRANSACTIONAL_ID)
    ]
