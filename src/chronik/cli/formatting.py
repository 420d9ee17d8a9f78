"""Users as `chronik storage format` takes them: Kafka's --add-scram, or a name, with a prompt for the password.

SCRAM-SHA-512=[name=alice,password=secret,iterations=8192]
SCRAM-SHA-256=[name=alice,salt=BASE64,saltedpassword=BASE64,iterations=4096]
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final

from chronik.cli.errors import Misused
from chronik.wire.scram import ITERATIONS_MAX, ITERATIONS_MIN, KINDS, salted_password

if TYPE_CHECKING:
    from chronik.metadata.commands.alter_scram_credentials import ScramUpsertion
    from chronik.runtime.interfaces import Randomness

KEYS: Final = ("name", "password", "saltedpassword", "salt", "iterations")
SALT_BYTES: Final = 24
_user = re.compile(r"(?P<mechanism>[^=\[\]]+)=\[(?P<rest>.*)\]", re.DOTALL)
_pair = re.compile(r"""\s*(?P<key>[a-z]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>[^,]*))\s*(?:,|$)""")


def parse_user(text: str, randomness: Randomness) -> ScramUpsertion:
    """Raises Misused, without showing a value."""
    from chronik.broker.first_users import credential_of

    matched = _user.fullmatch(text.strip())
    if matched is None or matched["mechanism"].strip().upper() not in KINDS:
        raise Misused(f"--add-scram: write MECHANISM=[name=...,password=...], with one of {', '.join(KINDS)}")
    kind = KINDS[matched["mechanism"].strip().upper()]
    values = _values(matched["rest"])
    name = values.get("name", "")
    if not name:
        raise Misused("--add-scram: the user has no name: write name=...")
    iterations = values.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise Misused(f"--add-scram: iterations of {name}: write {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    if ("password" in values) == ("saltedpassword" in values):
        raise Misused(f"--add-scram: {name} needs either password or saltedpassword")
    salt = _decoded("salt", values["salt"]) if "salt" in values else randomness.bytes(SALT_BYTES)
    if "password" in values:
        salted = salted_password(kind, values["password"], salt, int(iterations))
    elif "salt" in values:
        salted = _decoded("saltedpassword", values["saltedpassword"])
    else:
        raise Misused(f"--add-scram: a saltedpassword of {name} needs its salt")
    return credential_of(name, kind, salt, int(iterations), salted)


def new_user(name: str, mechanism: str, password: str, randomness: Randomness) -> ScramUpsertion:
    from chronik.broker.first_users import credential_of

    kind, salt = KINDS[mechanism], randomness.bytes(SALT_BYTES)
    salted = salted_password(kind, password, salt, ITERATIONS_MIN)
    return credential_of(name, kind, salt, ITERATIONS_MIN, salted)


def _values(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        matched = _pair.match(text, at)
        if matched is None or matched["key"] not in KEYS or matched["key"] in found:
            raise Misused(f"--add-scram: inside the brackets write key=value, each once, of {', '.join(KEYS)}")
        found[matched["key"]] = matched["quoted"] if matched["quoted"] is not None else matched["bare"].strip()
        at = matched.end()
    return found


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Misused(f"--add-scram: {key} is not base64") from None
