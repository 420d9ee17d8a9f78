"""All limits of the broker, with their reasons, and checks of the relations between them."""

from __future__ import annotations

from chronik.runtime.invariants import check
from chronik.runtime.units import KIB, MIB

IN_FLIGHT_REQUESTS_MAX = 128  # per connection; clients send 5, librdkafka may send many
IN_FLIGHT_BYTES_HIGH = 64 * MIB  # per connection; reading stops above it and continues below the low mark
IN_FLIGHT_BYTES_LOW = 32 * MIB
check(IN_FLIGHT_BYTES_LOW < IN_FLIGHT_BYTES_HIGH, "23 reading must be able to go on")

# For decoding a request that did not fit one read: about 100,000 elements, more than clients send.
REQUEST_OBJECT_BYTES_MAX = 16 * MIB
# Frames above this size are decoded in slices, up to this many at the same time.
HUGE_BYTES, HUGE_AT_ONCE = 128 * KIB, 4
check(HUGE_AT_ONCE * REQUEST_OBJECT_BYTES_MAX <= 64 * MIB, "23 what is not counted yet must fit beside the budget")
AT_ONCE_BYTES = 8 * KIB  # a larger frame may hold thousands of elements, so it is decoded in slices
BRIEF_OBJECT_BYTES_MAX = 16 * KIB  # objects that a larger frame is decoded into at once: about ten partitions

HOST_SHARE = 2  # frames of one address take half of the memory budget at most
KEPT_SHARE = 4  # fetch sessions take a quarter of it at most, and so does what members of groups send
TELEMETRY_SHARE = 16  # metrics that clients push take this share of it at most, and so do their subscriptions

HELD_BYTES_MAX = 4 * MIB  # finished responses behind one that waits; above it, no request is started
UNSENT_BYTES_HIGH = (
    32 * KIB
)  # in addition to the kernel's buffer; above it, the reader counts as slow, and the rest is counted

CONNECTIONS_MAX = 10_000  # file descriptors are limited; further connections are refused with a log line
UNREAD_SECONDS_MAX = 60  # how long a peer may leave responses unread while others need the memory
FRAME_SECONDS_MAX = 30  # a started frame must be complete within this time; protects against slow senders
FETCH_WAIT_MS_MAX = 5 * 60 * 1000
