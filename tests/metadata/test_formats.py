"""What an older release cannot read is written only when every node can read it, and from then on that stays so."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.create_acls import CreateAcls
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.register_broker import RegisterBroker
from chronik.metadata.commands.update_features import UNSAFE_DOWNGRADE, FeatureUpdate, UpdateFeatures
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.formats import FIRST, FORMAT_FEATURE, LEVEL_OF, NEWEST, level_of
from chronik.metadata.records import WRITTEN
from chronik.wire.error_codes import ErrorCode
from tests.metadata.access_commands import acl
from tests.metadata.clusters import Cluster, cluster, create, new_topic, registration

RECORDS_OF_THE_FIRST_FORMAT = 14  # the types that the first release could read


def of_the_first_release(broker_id: int, process: int = 1) -> RegisterBroker:
    made = registration(broker_id, process=process)
    made.features = [feature for feature in made.features if feature.name != FORMAT_FEATURE]
    return made


def with_an_old_broker() -> Cluster:
    """As during an upgrade: broker 1 runs this release, broker 2 the first."""
    on = cluster(1)
    on.ask(of_the_first_release(2))
    return on


def test_an_old_broker_holds_back_what_it_cannot_read() -> None:
    """It would refuse the entry and everything after it. If most voters did, the quorum would stop."""
    on = with_an_old_broker()
    with pytest.raises(MetadataRefused, match=r"node 2 runs an older release.*upgrade it first") as refused:
        on.ask(CreateAcls(rules=[acl()]))
    assert refused.value.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert not list(on.image.access)
    assert level_of(on.image) == FIRST


def test_what_the_first_release_reads_needs_no_level() -> None:
    on = with_an_old_broker()
    create(on, new_topic("orders"))
    assert on.topic("orders")
    assert FORMAT_FEATURE not in on.image.features


def test_the_first_use_raises_the_level_once_all_are_upgraded() -> None:
    on = with_an_old_broker()
    on.ask(registration(2, process=2))
    on.ask(CreateAcls(rules=[acl()]))
    assert len(list(on.image.access)) == 1
    assert level_of(on.image) == NEWEST


def test_an_old_broker_cannot_come_back_to_what_it_cannot_read() -> None:
    """It would serve records of aborted transactions as committed, for example."""
    on = cluster(2)
    on.ask(FenceBroker(broker_id=2, broker_epoch=on.epoch(2)))
    on.ask(CreateAcls(rules=[acl()]))
    with pytest.raises(MetadataRefused, match=r"chronik\.format at level 2, broker 2 has it not at all: upgrade it"):
        on.ask(of_the_first_release(2, process=2))


def test_a_level_is_raised_by_hand_and_never_lowered() -> None:
    on = cluster(1)
    on.ask(UpdateFeatures(updates=[FeatureUpdate(name=FORMAT_FEATURE, level=NEWEST)]))
    for level in (0, FIRST):
        with pytest.raises(MetadataRefused):
            on.ask(
                UpdateFeatures(updates=[FeatureUpdate(name=FORMAT_FEATURE, level=level, upgrade_type=UNSAFE_DOWNGRADE)])
            )
    assert level_of(on.image) == NEWEST


def test_every_later_record_has_a_level() -> None:
    """A new kind of record takes the next level: see the module."""
    later = {record for record, (number, _) in WRITTEN.items() if number > RECORDS_OF_THE_FIRST_FORMAT}
    assert set(LEVEL_OF) == later
    assert all(version == 0 for _, version in WRITTEN.values()), "a new version of a record needs a level as well"
    assert max(LEVEL_OF.values()) <= NEWEST
