"""The notation of recorded Raft interactions: how a Ready, a message, an entry is written down in a transcript."""

from __future__ import annotations

import json
from collections.abc import Iterable

from chronik.raft.changes import Action, ChangeSet
from chronik.raft.messages import (
    NOBODY,
    Entry,
    EntryKind,
    HardState,
    Message,
    MessageKind,
    Ready,
    Role,
    Snapshot,
    SoftState,
)
from chronik.raft.progress import Progress, ProgressState

KIND_NAMES = {
    MessageKind.PROPOSE: "MsgProp",
    MessageKind.APPEND: "MsgApp",
    MessageKind.APPEND_REPLY: "MsgAppResp",
    MessageKind.VOTE: "MsgVote",
    MessageKind.VOTE_REPLY: "MsgVoteResp",
    MessageKind.PRE_VOTE: "MsgPreVote",
    MessageKind.PRE_VOTE_REPLY: "MsgPreVoteResp",
    MessageKind.SNAPSHOT: "MsgSnap",
    MessageKind.HEARTBEAT: "MsgHeartbeat",
    MessageKind.HEARTBEAT_REPLY: "MsgHeartbeatResp",
    MessageKind.TRANSFER_LEADER: "MsgTransferLeader",
    MessageKind.TIMEOUT_NOW: "MsgTimeoutNow",
    MessageKind.READ_INDEX: "MsgReadIndex",
    MessageKind.READ_INDEX_REPLY: "MsgReadIndexResp",
}
ROLE_NAMES = {
    Role.FOLLOWER: "StateFollower",
    Role.CANDIDATE: "StateCandidate",
    Role.LEADER: "StateLeader",
    Role.PRE_CANDIDATE: "StatePreCandidate",
}
PACE_NAMES = {
    ProgressState.PROBE: "StateProbe",
    ProgressState.REPLICATE: "StateReplicate",
    ProgressState.SNAPSHOT: "StateSnapshot",
}
ENTRY_NAMES = {
    EntryKind.NORMAL: "EntryNormal",
    EntryKind.CHANGE: "EntryConfChange",
    EntryKind.CHANGES: "EntryConfChangeV2",
}
ACTION_LETTERS = {Action.ADD_VOTER: "v", Action.ADD_LEARNER: "l", Action.REMOVE: "r", Action.UPDATE: "u"}


def indented(text: str, by: str = "  ") -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


def entry(value: Entry) -> str:
    if value.kind is EntryKind.NORMAL:
        content = json.dumps(value.data.decode("latin-1"))
    else:
        changes = ChangeSet.of(value).changes
        content = " ".join(ACTION_LETTERS[change.action] + str(change.node_id) for change in changes)
    return f"{value.term}/{value.index} {ENTRY_NAMES[value.kind]} {content}".rstrip()


def entries(values: Iterable[Entry]) -> str:
    return "".join(entry(value) + "\n" for value in values)


def numbers(values: Iterable[int]) -> str:
    return "[" + " ".join(map(str, values)) + "]"


def snapshot(value: Snapshot) -> str:
    voters, learners = value.membership
    return (
        f"Index:{value.index} Term:{value.term} ConfState:Voters:{numbers(voters)} VotersOutgoing:[] "
        f"Learners:{numbers(learners)} LearnersNext:[] AutoLeave:false"
    )


def leader(node_id: int) -> int:
    """Recordings number nodes from 1; 0 means none."""
    return 0 if node_id == NOBODY else node_id


def hard_state(value: HardState) -> str:
    vote = f" Vote:{value.vote}" if value.vote != NOBODY else ""
    return f"Term:{value.term}{vote} Commit:{value.commit}"


def soft_state(value: SoftState) -> str:
    return f"Lead:{leader(value.leader)} State:{ROLE_NAMES[value.role]}"


def parcel(
    head: str,
    *,
    term: int,
    log_term: int = 0,
    index: int = 0,
    reject: bool = False,
    hint: int = 0,
    commit: int = 0,
    vote: int = NOBODY,
    carried: tuple[Entry, ...] = (),
    image: Snapshot | None = None,
    responses: tuple[str, ...] = (),
) -> str:
    """One message, `head` being sender, recipient and kind. Lists of more than one entry take a line each."""
    text = f"{head} Term:{term} Log:{log_term}/{index}"
    if reject:
        text += f" Rejected (Hint: {hint})"
    if commit:
        text += f" Commit:{commit}"
    if vote != NOBODY:
        text += f" Vote:{vote}"
    if len(carried) == 1:
        text += f" Entries:[{entry(carried[0])}]"
    elif carried:
        text += f" Entries:[\n{indented(entries(carried))}]"
    if image and image.index:
        text += f"\n  Snapshot: {snapshot(image)}"
    if responses:
        text += " Responses:[\n" + "".join(indented(each + "\n") for each in responses) + "]"
    return text


def message(value: Message) -> str:
    return parcel(
        f"{value.sender}->{value.to} {KIND_NAMES[value.kind]}",
        term=value.term,
        log_term=value.log_term,
        index=value.index,
        reject=value.reject,
        hint=value.hint,
        commit=value.commit,
        carried=value.entries,
        image=value.snapshot,
    )


def ready(value: Ready, parcels: Iterable[str]) -> str:
    parcels = list(parcels)
    lines = []
    if value.soft_state:
        lines.append(soft_state(value.soft_state) + "\n")
    if value.hard_state:
        lines.append(f"HardState {hard_state(value.hard_state)}\n")
    if value.read_states:
        lines.append(f"ReadStates {list(value.read_states)}\n")
    if value.entries:
        lines.append("Entries:\n" + entries(value.entries))
    if value.snapshot:
        lines.append(f"Snapshot {snapshot(value.snapshot)}\n")
    if value.committed:
        lines.append("CommittedEntries:\n" + entries(value.committed))
    if parcels:
        lines.append("Messages:\n" + "".join(each + "\n" for each in parcels))
    if not lines:
        return "<empty Ready>\n"
    return f"Ready MustSync={str(value.must_sync).lower()}:\n" + "".join(lines)


def progress(value: Progress) -> str:
    text = f"{PACE_NAMES[value.pace]} match={value.match} next={value.next}"
    if value.is_learner:
        text += " learner"
    if value.paused:
        text += " paused"
    if value.pending_snapshot:
        text += f" pendingSnap={value.pending_snapshot}"
    if not value.recently_active:
        text += " inactive"
    if len(value.inflights):
        text += f" inflight={len(value.inflights)}" + ("[full]" if value.inflights.full else "")
    return text
