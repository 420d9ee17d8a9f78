"""One judgement for each produced batch: to append as it is, to look into, or to refuse."""

from __future__ import annotations

import pytest

from chronik.broker.produced import Look, Verdict, judge
from chronik.replication.topic_settings import TopicSettings
from chronik.storage.config import LogConfig
from chronik.storage.errors import RecordTooLarge
from chronik.wire.batches import BatchView, build
from chronik.wire.compression import Codec
from chronik.wire.errors import CorruptBatch, InvalidRecord, InvalidTimestamp, TooLarge
from chronik.wire.records import Record
from tests.broker.harness import NOW_MS

VERSION = 9


def batch(*times_ms: int, key: bytes | None = None, codec: Codec = Codec.NONE, value: bytes = b"v") -> bytes:
    return build([Record(at, time_ms, key, value, ()) for at, time_ms in enumerate(times_ms or (NOW_MS,))], codec)


def judged(data: bytes, config: LogConfig | None = None, compression_type: str = "producer") -> Verdict:
    settings = TopicSettings(config or LogConfig(), 1, compression_type, None)
    return judge(memoryview(data), VERSION, settings, NOW_MS)


def looked_into(verdict: Verdict) -> BatchView | None:
    assert isinstance(verdict, Look)
    return verdict.inside()


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_for_a_topic_without_rules_is_appended_as_it_is(codec: Codec) -> None:
    data = batch(codec=codec)
    verdict = judged(data)
    assert isinstance(verdict, BatchView)
    assert verdict.data == data


def test_a_refusal_says_what_is_wrong() -> None:
    assert isinstance(judged(batch()[:-1] + b"x"), CorruptBatch)
    assert isinstance(judged(batch(value=bytes(300)), LogConfig(max_message_bytes=200)), TooLarge)


def test_records_are_read_where_the_topic_has_rules_on_keys_or_times() -> None:
    """The header tells the largest timestamp. It tells neither the smallest nor whether records have keys."""
    with pytest.raises(InvalidTimestamp):
        looked_into(judged(batch(NOW_MS + 3_600_001)))
    recent = LogConfig(message_timestamp_before_max_ms=1000)
    with pytest.raises(InvalidTimestamp):
        looked_into(judged(batch(NOW_MS, NOW_MS - 1001), recent))
    assert looked_into(judged(batch(NOW_MS, NOW_MS - 1000), recent)) is not None
    compacted = LogConfig(cleanup_policy="compact")
    with pytest.raises(InvalidRecord):
        looked_into(judged(batch(), compacted))
    assert looked_into(judged(batch(key=b"k"), compacted)) is not None


def test_a_batch_that_another_codec_makes_too_large_is_refused() -> None:
    sent = batch(codec=Codec.GZIP, value=bytes(5000))
    config = LogConfig(max_message_bytes=1000)
    assert isinstance(judged(sent, config), BatchView)
    with pytest.raises(RecordTooLarge):
        looked_into(judged(sent, config, "uncompressed"))


def test_only_long_looks_leave_the_event_loop() -> None:
    """A thread costs more than a look at a few records, and a compressed batch may hold any number of them."""
    compacted = LogConfig(cleanup_policy="compact")
    for data, is_long in ((batch(), False), (batch(codec=Codec.GZIP), True), (batch(value=bytes(70_000)), True)):
        verdict = judged(data, compacted)
        assert isinstance(verdict, Look)
        assert verdict.is_long is is_long
