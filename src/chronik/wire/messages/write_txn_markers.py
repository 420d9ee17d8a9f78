"""WriteTxnMarkers (key 27): a transaction coordinator makes partition leaders write commit or abort markers.

v1 flexible; v2 transaction_version.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, int64, string


class WriteTxnMarkersRequest(Request, api_key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarker]


class WritableTxnMarker(Struct):
    producer_id: int64
    producer_epoch: int16
    transaction_result: boolean  # true commits, false aborts
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32
    transaction_version: int8 = field("2+")


class WritableTxnMarkerTopic(Struct):
    name: string
    partition_indexes: list[int32]


class WriteTxnMarkersResponse(Response, api_key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult]


class WritableTxnMarkerResult(Struct):
    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


class WritableTxnMarkerTopicResult(Struct):
    name: string
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32
    error_code: int16
