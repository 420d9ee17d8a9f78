"""Commands are decided in order, each on the result of the previous ones; a repeated command is decided only once."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.command import ControllerCommand, QuorumCommand, RequestId
from chronik.metadata.commands.create_topics import CreateTopics
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.registry import COMMANDS
from chronik.metadata.commands.update_features import FeatureUpdate, UpdateFeatures
from chronik.metadata.errors import MetadataRefused
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import SECOND_NS, cluster, create, new_topic, registration


def creation(name: str) -> CreateTopics:
    return CreateTopics(topics=[new_topic(name)])


def test_every_command_is_decided_by_someone_and_answered() -> None:
    """A command that reaches the controller and is unknown there would stop it."""
    for command in COMMANDS:
        base, method = (
            (QuorumCommand, "carry_out") if issubclass(command, QuorumCommand) else (ControllerCommand, "decide")
        )
        assert issubclass(command, base)
        assert getattr(command, method) is not getattr(base, method), f"{command.__name__} has no {method}"
        assert command.reply_type.__name__ == f"{command.__name__}Reply"


def test_commands_see_what_was_decided_before_them_though_it_is_not_committed() -> None:
    """Two creations of one name in one entry would fork the state; the second must see the first."""
    on = cluster(1)
    commands = [creation("t"), creation("t"), DeleteTopics(topics=[TopicName(name="t")]), creation("t")]
    made = [on.controller.handle(each, RequestId(1, 1, at, 1), 0) for at, each in enumerate(commands, 1)]
    codes = [decision.reply.topics[0].error_code for decision in made]  # type: ignore[attr-defined]
    assert codes == [0, ErrorCode.TOPIC_ALREADY_EXISTS, 0, 0]
    assert made[1].records == []
    on.apply([record for decision in made for record in decision.records])
    assert on.image.topic_named("t") is not None


@pytest.mark.parametrize("same_controller", [True, False])
def test_a_repeated_request_gets_the_first_reply_and_changes_nothing(same_controller: bool) -> None:
    """Its answer was lost. In between someone deleted the topic: it must not come back."""
    on = cluster(1)
    request = RequestId(5, 1, 1, 1)
    first = on.ask(creation("t"), request)
    on.ask(DeleteTopics(topics=[TopicName(name="t")]))
    if not same_controller:
        on.change_controller()
    records = len(on.records)
    assert on.ask(creation("t"), request) == first
    assert len(on.records) == records
    assert on.image.topic_named("t") is None


def test_a_refused_request_may_be_decided_anew() -> None:
    """It changed nothing, so there is nothing to remember; when it is repeated the answer may be a better one."""
    on = cluster(1)
    request = RequestId(5, 1, 1, 1)
    assert on.ask(CreateTopics(topics=[new_topic("t", 1, 2)]), request).topics[0].error_code != 0
    on.ask(registration(2))
    assert on.ask(CreateTopics(topics=[new_topic("t", 1, 2)]), request).topics[0].error_code == 0


def test_replies_are_forgotten_once_the_node_has_them() -> None:
    """The state must not grow with every command ever given."""
    on = cluster(1)
    for sequence in range(1, 50):
        on.ask(creation(f"t{sequence}"), RequestId(5, 1, sequence, max(sequence - 3, 1)))
    applied = on.image.applied[5]
    assert sorted(applied.replies) == [46, 47, 48, 49]
    with pytest.raises(MetadataRefused) as refused:
        on.ask(creation("t1"), RequestId(5, 1, 1, 1))
    assert refused.value.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_new_process_of_a_node_starts_counting_anew_and_the_old_one_is_not_heard_again() -> None:
    """Requests that the old process sent before it died may arrive late: no caller waits for them, and they may be
    applied already."""
    on = cluster(1)
    on.ask(creation("old"), RequestId(5, 1, 1, 1))
    assert on.ask(creation("new"), RequestId(5, 2, 1, 1)).topics[0].name == "new"
    with pytest.raises(MetadataRefused):
        on.ask(creation("late"), RequestId(5, 1, 2, 1))
    assert on.image.topic_named("late") is None


def test_a_refused_command_leaves_the_working_state_alone() -> None:
    """The next one is decided on the same state as if it had never come."""
    on = cluster(1)
    create(on, new_topic("t"))
    before = on.controller.newest.all_topics()
    with pytest.raises(MetadataRefused):
        on.ask(UpdateFeatures(updates=[FeatureUpdate(name="no-such-feature", level=1)]))
    assert on.controller.newest.all_topics() == before
    on.now_ns += SECOND_NS
    on.controller.settle()
    assert on.controller.newest.all_topics() == before
