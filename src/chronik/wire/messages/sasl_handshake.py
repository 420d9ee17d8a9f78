"""SaslHandshake (key 17): picks the SASL mechanism.

v1 the tokens that follow travel in SaslAuthenticate; after v0 they follow bare. Never flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1"):
    mechanism: string


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    error_code: int16
    mechanisms: list[string]
