"""All bounds of the broker, with their reasons. Relations between them are checked here."""

from __future__ import annotations

from chronik.runtime.invariants import check
from chronik.runtime.units import KIB, MIB

IN_FLIGHT_REQUESTS_MAX = 128  # per connection; clients send 5, librdkafka may send many
IN_FLIGHT_BYTES_HIGH = 64 * MIB  # per connection; reading stops above and goes on below the low mark
IN_FLIGHT_BYTES_LOW = 32 * MIB
check(IN_FLIGHT_BYTES_LOW < IN_FLIGHT_BYTES_HIGH, "23 reading must be able to go on")

# What a request that did not fit one read may be decoded into: about 100,000 elements. Clients send fewer.
REQUEST_OBJECT_BYTES_MAX = 16 * MIB
HUGE_BYTES, HUGE_AT_ONCE = 128 * KIB, 4  # frames above this size are decoded in pieces, up to this many at a time
check(HUGE_AT_ONCE * REQUEST_OBJECT_BYTES_MAX <= 64 * MIB, "23 what is not counted yet must fit beside the budget")
AT_ONCE_BYTES = 8 * KIB  # a larger frame may hold thousands of elements: then it is decoded in pieces
BRIEF_OBJECT_BYTES_MAX = 16 * KIB  # of objects that a larger frame is decoded into at once: about ten partitions

HOST_SHARE = 2  # frames of one address take half of the memory budget at most
KEPT_SHARE = 4  # fetch sessions take a quarter of it at most, and so does what members of groups send
TELEMETRY_SHARE = 16  # metrics that clients push take this share of it at most, and so do their subscriptions

HELD_BYTES_MAX = 4 * MIB  # of finished replies behind one that waits; no request is started above
UNSENT_BYTES_HIGH = (
    32 * KIB
)  # beyond the kernel's own buffer; above, the reader counts as slow, and the rest is counted

CONNECTIONS_MAX = 10_000  # file descriptors are finite; one more is refused with a log line
UNREAD_SECONDS_MAX = 60  # that a peer may leave replies unread while others have to do without the memory they take
FRAME_SECONDS_MAX = 30  # the time in which a started frame must be whole: a slow loris is closed
FETCH_WAIT_MS_MAX = 5 * 60 * 1000
