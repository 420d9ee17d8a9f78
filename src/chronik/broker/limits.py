"""Every bound of the broker, with its reason. Relations between them are checked where they stand."""

from __future__ import annotations

from chronik.runtime.invariants import check

KIB, MIB = 1 << 10, 1 << 20

FRAME_BYTES_MAX = 100 * MIB  # Kafka's socket.request.max.bytes
FRAME_BYTES_MAX_BEFORE_LOGIN = 64 * KIB  # SASL tokens fit; anything larger from a stranger is an attack
check(FRAME_BYTES_MAX_BEFORE_LOGIN < FRAME_BYTES_MAX, "a stranger may not cost more than a user")

IN_FLIGHT_REQUESTS_MAX = 128  # per connection; clients send 5, librdkafka may send many
IN_FLIGHT_BYTES_HIGH = 64 * MIB  # per connection; reading stops above and goes on below the low mark
IN_FLIGHT_BYTES_LOW = 32 * MIB
check(IN_FLIGHT_BYTES_LOW < IN_FLIGHT_BYTES_HIGH, "reading must be able to go on")

# What a request that did not fit one read may be decoded into: about 100,000 elements. Reading and answering them holds
# the loop for a tenth of a second; a million would be a second, and no client sends so many.
REQUEST_OBJECT_BYTES_MAX = 16 * MIB
REQUESTS_PER_TURN = 32  # of one connection, before the loop gets its turn: a full read holds 18,000 small ones

HELD_BYTES_MAX = 4 * MIB  # of finished replies behind one that waits; no request is started above
UNSENT_BYTES_HIGH = (
    32 * KIB
)  # beyond the kernel's own buffer; above, the reader counts as slow, and the rest is counted

CONNECTIONS_MAX = 10_000  # file descriptors are finite; one more is refused with a log line
FRAME_SECONDS_MAX = 30  # the time in which a started frame must be whole: a slow loris is closed
FETCH_WAIT_MS_MAX = 5 * 60 * 1000
