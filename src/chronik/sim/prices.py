"""What computing costs a simulated process. One table, in nanoseconds and picoseconds per byte, for everything that is
charged: `transport` and `disk` charge their own calls, `charging` those of the product.

The figures are those of one core of a common server, rounded. They need not be right to the percent: they have to tell
work that grows with what somebody asks for, or with what a node holds, from work that does not.
"""

from __future__ import annotations

# The system's calls
SOCKET_CALL_NS, SOCKET_PS_PER_BYTE = 6_000, 250
DISK_CALL_NS, DISK_PS_PER_BYTE = 4_000, 300
DISK_SYNC_NS = 2_000_000  # on the loop; a lane's costs the loop nothing

# The product's
PIECE_NS = 10_000  # of a long computation, by its own count
REQUEST_NS = 20_000
DECODED_PS_PER_BYTE = 50_000  # of a message of many small fields
DECODED_RECORDS_PS_PER_BYTE = 500  # of one that is mostly records, which are not looked into
ENCODED_PS_PER_BYTE = 20_000
PARTITION_NS = 5_000  # looked up, read, counted, told about
BATCH_PS_PER_BYTE = 500  # its CRC
RAFT_STEP_NS = 15_000
RECORD_NS, RECORD_PS_PER_BYTE = 10_000, 20_000  # of metadata, folded into the image
