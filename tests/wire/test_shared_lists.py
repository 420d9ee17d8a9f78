"""Lists that many messages contain are encoded once per version, to the same bytes as any other list."""

from __future__ import annotations

import pytest

from chronik.wire.compiler import decode, encode
from chronik.wire.messages.create_topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from chronik.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from chronik.wire.notation import Shared


def partition(index: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=1,
        replica_nodes=[1, 2, 3],
        isr_nodes=[1, 2],
        offline_replicas=[3],
    )


def metadata(partitions: list[MetadataResponsePartition]) -> MetadataResponse:
    topics = [MetadataResponseTopic(error_code=0, name=name, partitions=partitions) for name in ("one", "other")]
    return MetadataResponse(brokers=[], topics=topics)


@pytest.mark.parametrize("version", range(MetadataResponse.versions.first, MetadataResponse.versions.last + 1))
@pytest.mark.parametrize("count", [0, 1, 200])
def test_a_shared_list_is_the_same_bytes_as_a_plain_one(version: int, count: int) -> None:
    """The first time, when it is kept, and every time after that."""
    plain = [partition(index) for index in range(count)]
    shared = Shared(plain)
    expected = encode(metadata(plain), version)
    assert encode(metadata(shared), version) == expected
    assert encode(metadata(shared), version) == expected
    assert len(shared.encoded) == 1
    assert len(decode(MetadataResponse, version, expected).topics[1].partitions) == count


def test_a_null_list_is_null_beside_a_shared_one() -> None:
    """CreateTopics has both: a topic that was refused has no configuration to show."""
    config = CreatableTopicConfigs(name="a", value=None, read_only=True, config_source=5, is_sensitive=False)
    shared = Shared([config])
    topics = [
        CreatableTopicResult(name="refused", error_code=36, error_message=None, configs=None),
        CreatableTopicResult(name="made", error_code=0, error_message=None, configs=shared),
    ]
    data = encode(CreateTopicsResponse(topics=topics), 7)
    refused, made = decode(CreateTopicsResponse, 7, data).topics
    assert refused.configs is None
    assert made.configs == [config]


def test_versions_keep_bytes_of_their_own() -> None:
    """One answer in v1, the next in v12: neither may get the other's."""
    shared = Shared([partition(0)])
    assert encode(metadata(shared), 1) == encode(metadata(list(shared)), 1)
    assert encode(metadata(shared), 12) == encode(metadata(list(shared)), 12)
    assert len(shared.encoded) == 2
