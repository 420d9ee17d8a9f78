"""For any log, a restore sends batches to which a broker assigns the original offsets."""

from __future__ import annotations

from hypothesis import given

from chronik.backup import cutting
from chronik.backup.cutting import Hide, Put, Skip, SkippedOffsets, filler, stamped, steps
from chronik.wire.batches import BatchView, validate_produced
from chronik.wire.records import Record, iterate
from tests.backup.conftest import logs

BYTES_MAX = 1 << 20


def sent(batch: BatchView) -> BatchView:
    """As a broker takes it: it checks the header, and that a batch has no holes."""
    return validate_produced(memoryview(stamped(batch, 9, 0, 4)), BYTES_MAX)


@given(logs())
def test_every_record_gets_its_offset_again(log: tuple[list[BatchView], int, int]) -> None:
    """A broker counts offsets upwards from 0, so a step too many or too few moves all that follows."""
    batches, start, end = log
    written: list[Record] = []
    position = skipped = 0
    for step in steps(batches, start, end):
        match step:
            case Put(batch):
                assert batch.base_offset == position
                taken = sent(batch)
                written += [each._replace(offset=each.offset + position) for each in iterate(taken, BYTES_MAX)]
                assert [each.offset for each in written[-taken.record_count :]] == list(
                    range(position, position + taken.record_count)
                )
                position += taken.record_count
            case Hide(offset, count):
                assert offset == position
                assert 0 < count <= start - offset, "records of no meaning stand only where nobody reads"
                position += count
            case Skip(offset, count):
                assert offset == position
                assert offset >= start
                assert count > 0
                position += count
                skipped += count
    assert position == max([end, *(batch.next_offset for batch in batches)])
    assert written == [record for batch in batches for record in iterate(batch, BYTES_MAX)]
    counted = SkippedOffsets(start)
    for batch in batches:
        counted.add(batch)
    assert skipped <= counted.until(end) <= skipped + start


@given(logs())
def test_nothing_of_the_cluster_before_is_sent(log: tuple[list[BatchView], int, int]) -> None:
    """Its producer ids belong to other producers here, and its transactions to none."""
    batches, start, end = log
    for step in steps(batches, start, end):
        if isinstance(step, Put):
            batch = sent(step.batch)
            assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 0, 4)
            assert not batch.is_transactional
            assert batch.partition_leader_epoch == -1


def test_a_plain_batch_keeps_its_compressed_bytes() -> None:
    """Compressing again costs time, and another level other bytes."""
    [batch] = cutting.split(memoryview(cutting.build([Record(3, 5, b"k", b"v" * 900)], cutting.Codec.GZIP)))
    [_, step] = steps([batch], 0, 4)
    assert isinstance(step, Put)
    assert bytes(sent(step.batch).payload) == bytes(batch.payload)


def test_many_small_batches_become_few() -> None:
    """A request carries one batch of a partition, so records that were produced one by one would take one each."""
    small = [
        batch
        for offset in range(1_000)
        for batch in cutting.split(memoryview(cutting.build([Record(offset, 5, b"k", b"v")])))
    ]
    assert len(list(steps(small, 0, 1_000))) == 1


def test_a_filler_is_a_batch_that_every_topic_takes() -> None:
    """Compacted topics refuse records without a key."""
    taken = sent(filler(10_000))
    assert taken.record_count == 10_000
    assert all(record.key is not None for record in iterate(taken, BYTES_MAX))
    assert taken.size_bytes < 50_000
