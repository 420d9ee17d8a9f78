"""process-ready, the two threads, and stabilize: carries out a Ready, at once or by threads."""

from __future__ import annotations

from functools import partial

from chronik.raft.messages import Entry, HardState, Persisted, Ready
from tests.raft import describing
from tests.raft.interaction import Command, Environment, Node, Parcel, Work
from tests.raft.verbs.delivery import deliver
from tests.raft.verbs.looking import set_level


def process_ready(environment: Environment, command: Command) -> None:
    _each(environment, command, "handling Ready", _process_ready)


def process_append_thread(environment: Environment, command: Command) -> None:
    _each(environment, command, "processing append thread", _process_append)


def process_apply_thread(environment: Environment, command: Command) -> None:
    _each(environment, command, "processing apply thread", _process_apply)


def _each(environment: Environment, command: Command, title: str, work) -> None:
    node_ids = command.nodes()
    for node_id in node_ids:
        if len(node_ids) > 1:
            environment.indented(f"{node_id} {title}", partial(work, environment, node_id))
        else:
            work(environment, node_id)


def stabilize(environment: Environment, command: Command) -> None:
    before = environment.level
    if command.option("log-level"):
        set_level(environment, command.option("log-level"))
    node_ids = command.nodes() or list(environment.nodes)
    while _round(environment, node_ids):
        pass
    environment.level = before


def _round(environment: Environment, node_ids: list[int]) -> bool:
    busy = False
    for node_id in node_ids:
        if environment.nodes[node_id].core.has_ready():
            environment.indented(f"{node_id} handling Ready", partial(_process_ready, environment, node_id))
            busy = True
    for node_id in node_ids:
        if any(parcel.to == node_id for parcel in environment.parcels):
            environment.indented(f"{node_id} receiving messages", partial(deliver, environment, node_id))
            busy = True
    for title, work in (("append", _process_append), ("apply", _process_apply)):
        for node_id in node_ids:
            if _queue(environment.nodes[node_id], title):
                environment.indented(
                    f"{node_id} processing {title} thread", partial(_drain, environment, node_id, title, work)
                )
                busy = True
    return busy


def _queue(node: Node, title: str) -> list[Work]:
    return node.append_work if title == "append" else node.apply_work


def _drain(environment: Environment, node_id: int, title: str, work) -> None:
    while _queue(environment.nodes[node_id], title):
        work(environment, node_id)


def _process_ready(environment: Environment, node_id: int) -> None:
    node = environment.nodes[node_id]
    ready = node.core.ready()
    sent = [environment.parcel(message) for message in ready.messages]
    if node.core.config.async_writes:
        work = [*_append_work(environment, node, ready), *_apply_work(node, ready.committed)]
        environment.write(describing.ready(ready, [parcel.text for parcel in sent] + work))
        environment.parcels.extend(sent)
        return
    sent += [environment.parcel(message) for message in ready.after_persist if message.to != node_id]
    environment.write(describing.ready(ready, [parcel.text for parcel in sent]))
    node.append(ready)
    node.apply(ready.committed)
    environment.parcels.extend(sent)
    node.core.advance(ready)


def _append_work(environment: Environment, node: Node, ready: Ready) -> list[str]:
    if not ready.touches_disk:
        return []
    responses = [environment.parcel(message) for message in ready.after_persist]
    if ready.persisted:
        responses.append(_persisted_parcel(node, ready))
    state = ready.hard_state or HardState()
    text = partial(
        describing.parcel,
        f"{node.core.id}->AppendThread MsgStorageAppend",
        term=state.term,
        commit=state.commit,
        vote=state.vote,
        carried=ready.entries,
        image=ready.snapshot,
    )
    node.append_work.append(Work(text(), lambda: node.append(ready), responses))
    return [text(responses=tuple(response.text for response in responses))]


def _persisted_parcel(node: Node, ready: Ready) -> Parcel:
    report: Persisted = ready.persisted  # type: ignore[assignment]
    text = describing.parcel(
        f"AppendThread->{node.core.id} MsgStorageAppendResp",
        term=report.term,
        log_term=report.log_term,
        index=report.index,
        image=ready.snapshot,
    )
    return Parcel(node.core.id, "MsgStorageAppendResp", text, True, lambda: node.core.persisted(report))


def _apply_work(node: Node, committed: tuple[Entry, ...]) -> list[str]:
    if not committed:
        return []
    node_id = node.core.id
    response = describing.parcel(f"ApplyThread->{node_id} MsgStorageApplyResp", term=0, carried=committed)
    parcel = Parcel(node_id, "MsgStorageApplyResp", response, True, lambda: node.core.applied(committed))
    text = partial(describing.parcel, f"{node_id}->ApplyThread MsgStorageApply", term=0, carried=committed)
    node.apply_work.append(Work(text(), lambda: node.apply(committed), [parcel]))
    return [text(responses=(response,))]


def _process_append(environment: Environment, node_id: int) -> None:
    _process(environment, environment.nodes[node_id].append_work, "append")


def _process_apply(environment: Environment, node_id: int) -> None:
    _process(environment, environment.nodes[node_id].apply_work, "apply")


def _process(environment: Environment, queue: list[Work], title: str) -> None:
    if not queue:
        environment.write(f"no {title} work to perform\n")
        return
    work = queue.pop(0)
    environment.write(f"Processing:\n{work.text}\nResponses:\n")
    environment.write("".join(parcel.text + "\n" for parcel in work.responses))
    work.do()
    environment.parcels.extend(work.responses)
