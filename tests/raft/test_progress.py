"""A leader's knowledge about a peer: the invariant under any order of events, and the important transitions."""

from __future__ import annotations

from random import Random

from chronik.raft.progress import Inflights, Progress, ProgressState


def progress(match: int = 0, next_index: int = 10) -> Progress:
    return Progress(
        match=match, next_index=next_index, is_learner=False, inflights=Inflights(3, 0), recently_active=True
    )


def test_match_stays_below_next_under_any_order_of_events() -> None:
    """Late, doubled and contradictory answers are the normal case on a network."""
    for seed in range(2000):
        random = Random(seed)
        peer = progress(0, random.randint(1, 12))
        for _ in range(60):
            dice = random.randrange(7)
            index = random.randint(0, 30)
            if dice == 0:
                peer.acknowledge(index)
            elif dice == 1:
                peer.reject(index, random.randint(0, 30))
            elif dice == 2:
                peer.become_probe()
            elif dice == 3:
                peer.become_replicate()
            elif dice == 4:
                peer.become_snapshot(max(index, peer.match + 1))
            elif dice == 5 and not peer.paused and not peer.inflights.full:
                peer.sent_entries(random.randint(0, 3), 1)
            elif dice == 6:
                peer.paused_flow = False
            assert 0 <= peer.match < peer.next, (seed, vars(peer))
            assert peer.pending_snapshot == 0 or peer.pace is ProgressState.SNAPSHOT


def test_an_outdated_refusal_changes_nothing() -> None:
    peer = progress(5, 10)
    assert not peer.reject(3, 1)
    assert peer.next == 10
    peer.become_replicate()
    assert not peer.reject(5, 4)
    assert peer.reject(6, 4)
    assert (peer.next, peer.match) == (6, 5)


def test_a_peer_that_refuses_what_it_acknowledged_has_lost_its_disk() -> None:
    """If it did not go back beyond the acknowledged index, it would send the same append forever."""
    peer = progress(34, 35)
    assert peer.reject(34, 1)
    assert (peer.match, peer.next) == (0, 2)


def test_probing_sends_one_append_until_it_is_answered() -> None:
    peer = progress()
    peer.sent_entries(2, 10)
    assert peer.paused
    peer.acknowledge(9)
    assert not peer.paused


def test_a_full_window_pauses_and_an_answer_opens_it() -> None:
    peer = progress(4, 5)
    peer.become_replicate()
    for _ in range(3):
        assert not peer.paused
        peer.sent_entries(1, 10)
    assert peer.paused
    assert peer.next == 8
    peer.acknowledge(6)
    peer.inflights.free_to(6)
    assert not peer.paused
    assert len(peer.inflights) == 1


def test_bytes_close_the_window_too() -> None:
    inflights = Inflights(100, 25)
    for index in (1, 2, 3):
        assert not inflights.full
        inflights.add(index, 10)
    assert inflights.full
    inflights.free_to(1)
    assert not inflights.full


def test_after_a_snapshot_probing_goes_on_behind_it() -> None:
    peer = progress(3, 5)
    peer.become_snapshot(20)
    assert peer.paused
    peer.become_probe()
    assert peer.next == 21


def test_a_commit_is_sent_once_as_far_as_the_peer_can_use_it() -> None:
    peer = progress(5, 8)
    peer.sent_commit = 4
    assert peer.commit_helps(6)
    peer.sent_commit = 7
    assert not peer.commit_helps(9)  # 7 is the peer's last entry: more it cannot commit
    peer.become_probe()
    assert peer.sent_commit == 5  # later entries may be lost, so the commit index sent for them no longer counts
