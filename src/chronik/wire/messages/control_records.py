"""Keys and values of control records, which consumers never see.

A key is an int16 version, then ControlRecordTypeSchema: 0 abort, 1 commit, 2 leader change, 3 snapshot header, 4
snapshot footer, 5 KRaft version, 6 voters. The value of 0 and 1 is an int16 version, then EndTxnMarker; the others have
their version as a field. LeaderChangeMessage: v1 directory ids of voters.
"""

from __future__ import annotations

from chronik.wire.notation import Data, Struct, field, int16, int32, int64, string, uint16, uuid


class ControlRecordTypeSchema(Data, versions="0"):
    type: int16


class EndTxnMarker(Data, versions="0"):
    coordinator_epoch: int32


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    version: int16
    leader_id: int32
    voters: list[LeaderChangeVoter]
    granting_voters: list[LeaderChangeVoter]


class LeaderChangeVoter(Struct):
    voter_id: int32
    voter_directory_id: uuid = field("1+")


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    version: int16
    last_contained_log_timestamp: int64


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    version: int16


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    version: int16
    kraft_version: int16


class VotersRecord(Data, versions="0", flexible="0+"):
    version: int16
    voters: list[VotersRecordVoter]


class VotersRecordVoter(Struct):
    voter_id: int32
    voter_directory_id: uuid
    endpoints: list[Endpoint]
    kraft_version_feature: KRaftVersionFeature


class Endpoint(Struct):
    name: string
    host: string
    port: uint16


class KRaftVersionFeature(Struct):
    min_supported_version: int16
    max_supported_version: int16
