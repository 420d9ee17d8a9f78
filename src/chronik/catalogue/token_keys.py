"""The keys of delegation tokens. Fields of Settings hold the values; `broker.settings.resolving` sets them."""

from __future__ import annotations

from chronik.catalogue.notation import read_table

TOKEN_KEYS = read_table("""
[Delegation tokens]
delegation.token.secret.key  password  -  read-only
    Key from which nodes compute the secrets of delegation tokens, the same on every node. Without it, delegation
    tokens are turned off. A new key ends all tokens.
delegation.token.max.lifetime.ms  long  604800000  read-only  1..
    How long after its creation a delegation token can be renewed at most.
delegation.token.expiry.time.ms  long  86400000  read-only  1..
    How long a delegation token can be used before it must be renewed.
delegation.token.expiry.check.interval.ms  long  3600000  read-only  1..
    How long a delegation token that has expired is kept, so that its owner is told why it is refused.
""")
