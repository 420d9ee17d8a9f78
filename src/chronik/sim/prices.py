"""The cost of computing in a simulated process: one table, in nanoseconds, and picoseconds per byte. `transport` and
`disk` charge their own calls, `charging` those of the product.

The figures are rounded from one core of a common server. They need not be precise: they must distinguish work that
grows with a request, or with a node's state, from work that does not.
"""

from __future__ import annotations

# System calls
SOCKET_CALL_NS, SOCKET_PS_PER_BYTE = 6_000, 250
DISK_CALL_NS, DISK_PS_PER_BYTE = 4_000, 300
DISK_SYNC_NS = 2_000_000  # on the loop; a sync on a lane is free for the loop

# The product's work
PIECE_NS = 10_000  # one step of a long computation
REQUEST_NS = 20_000
DECODED_PS_PER_BYTE = 50_000  # message of many small fields
DECODED_RECORDS_PS_PER_BYTE = 500  # message of mostly records, which are not parsed
ENCODED_PS_PER_BYTE = 20_000
PARTITION_NS = 5_000  # looked up, read, counted, reported
BATCH_PS_PER_BYTE = 500  # its CRC
RAFT_STEP_NS = 15_000
RECORD_NS, RECORD_PS_PER_BYTE = 10_000, 20_000  # metadata record, applied to the image
