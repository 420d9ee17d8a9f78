"""RemoveRaftVoter (key 81): removes a voter from the metadata quorum.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, int16, int32, string, uuid


class RemoveRaftVoterRequest(Request, api_key=81, versions="0", flexible="0+"):
    cluster_id: string | None
    voter_id: int32
    voter_directory_id: uuid


class RemoveRaftVoterResponse(Response, api_key=81, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
