"""AddRaftVoter (key 80): adds a voter to the metadata quorum.

v1 ack_when_committed. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, string, uint16, uuid


class AddRaftVoterRequest(Request, api_key=80, versions="0-1", flexible="0+"):
    cluster_id: string | None
    timeout_ms: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: list[Listener]
    ack_when_committed: boolean = field("1+", default=True)


class Listener(Struct):
    name: string
    host: string
    port: uint16


class AddRaftVoterResponse(Response, api_key=80, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
