"""The short form of a new topic is equivalent to the long one, and a topic that has changed has no short form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.metadata.image import EMPTY, Partition, Topic
from chronik.metadata.new_topics import PARTITIONS_MAX, Placement, new_topic_record, record_of
from chronik.metadata.records import MetadataRecord, PartitionRecord, TopicRecord, decode_batch, encode_batch
from chronik.metadata.replay import replay_onto

ID = bytes(range(16))
replicas = st.lists(st.integers(0, 9), min_size=3, max_size=3, unique=True).map(tuple)
placements = st.lists(replicas, min_size=1, max_size=5).map(tuple)


def long_form(placement: Placement) -> list[MetadataRecord]:
    partitions = [
        PartitionRecord(
            topic_id=ID, index=index, leader=r[0], leader_epoch=0, partition_epoch=0, replicas=list(r), isr=list(r)
        )
        for index, r in enumerate(placement)
    ]
    return [TopicRecord(topic_id=ID, name="a.b"), *partitions]


@given(placements)
def test_both_forms_make_the_same_topic(placement: Placement) -> None:
    """A log that an earlier controller wrote in one form is gone on with in the other."""
    short = [new_topic_record(ID, "a.b", placement)]
    images = [replay_onto(EMPTY, 1, decode_batch(encode_batch(form))) for form in (short, long_form(placement))]
    (one, its_changes), (other, other_changes) = images
    assert one.topics == other.topics
    assert one.topics_by_name == other.topics_by_name
    assert one.lookalikes == other.lookalikes
    assert its_changes == other_changes
    assert record_of(one.topics[ID]) == short[0]


@given(placements, st.data())
def test_a_topic_that_changed_has_no_short_form(placement: Placement, data: st.DataObject) -> None:
    """A snapshot that said less than the image would move leaders and epochs back."""
    partitions = [Partition(r[0], 0, 0, r, r) for r in placement]
    at = data.draw(st.integers(0, len(partitions) - 1))
    before = partitions[at]
    changed = data.draw(
        st.sampled_from(
            [
                before._replace(leader=before.replicas[1]),
                before._replace(leader_epoch=1),
                before._replace(partition_epoch=1),
                before._replace(isr=before.isr[:2]),
                before._replace(isr=before.isr[::-1]),
                before._replace(replicas=before.replicas[:2], isr=before.isr[:2])
                if len(placement) > 1
                else before._replace(elr=(1,)),
                before._replace(elr=(1,)),
                before._replace(last_known_elr=(1,)),
                before._replace(adding=(1,)),
                before._replace(removing=(1,)),
            ]
        )
    )
    partitions[at] = changed
    assert record_of(Topic(ID, "t", tuple(partitions))) is None


def test_a_topic_of_very_many_partitions_has_no_short_form() -> None:
    """The cache of short forms would become large."""
    few, many = (
        Topic(ID, "t", (Partition(1, 0, 0, (1,), (1,)),) * count) for count in (PARTITIONS_MAX, PARTITIONS_MAX + 1)
    )
    assert record_of(few) is not None
    assert record_of(many) is None
