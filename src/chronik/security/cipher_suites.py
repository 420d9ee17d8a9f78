"""Names of cipher suites: IANA's and Java's names for ssl.cipher.suites, and OpenSSL's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

# Python cannot select among TLS 1.3 suites; OpenSSL offers these three, all of which are secure.
TLS_1_3: Final = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})

TLS_1_2: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
}


class BadSuites(ValueError):
    """The message is only the reason."""


class Suites(NamedTuple):
    openssl: str  # for TLS 1.2, in the order given; empty: OpenSSL's default
    protocols: tuple[str, ...]  # enabled protocols that have a suite


def choose(names: Sequence[str], protocols: tuple[str, ...]) -> Suites:
    """The usable suites and protocols among these. No names: every suite. Raises BadSuites."""
    if not names:
        return Suites("", protocols)
    unknown = [name for name in names if name not in TLS_1_2 and name not in TLS_1_3]
    if unknown:
        raise BadSuites(f"{unknown[0]} is not known; write IANA's names, such as {next(iter(TLS_1_2))}")
    new = TLS_1_3.intersection(names)
    if new and new != TLS_1_3:
        raise BadSuites(
            f"of TLS 1.3 all suites are served or none: add {', '.join(sorted(TLS_1_3 - new))}, or leave out "
            f"{', '.join(sorted(new))}"
        )
    old = [TLS_1_2[name] for name in names if name in TLS_1_2]
    served = tuple(each for each in protocols if (new if each == "TLSv1.3" else old))
    if not served:
        raise BadSuites(f"none of these suites belongs to ssl.enabled.protocols={','.join(protocols)}")
    return Suites(":".join(old), served)
