"""SaslHandshake (key 17): selects the SASL mechanism.

v1 the following tokens are sent in SaslAuthenticate; after v0 they are sent without framing. Never flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, int16, string


class SaslHandshakeRequest(Request, api_key=17, versions="0-1"):
    mechanism: string


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    error_code: int16
    mechanisms: list[string]
