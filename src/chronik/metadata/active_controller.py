"""Runs the controller while this node leads the quorum: creates its writer, founds the cluster, fences silent brokers,
removes expired delegation tokens.

A controller starts when everything that earlier leaders committed is applied here. It ends when another node leads. If
a proposal fails while this node still leads, it restarts from the applied state.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from chronik.metadata.commands.command import Reply
from chronik.metadata.commands.create_topics import draw_cluster_id
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.remove_expired_tokens import RemoveExpiredTokens
from chronik.metadata.controller import Controller
from chronik.metadata.errors import MetadataRefused, NotController, StoreClosed
from chronik.metadata.records import ClusterRecord, FeatureLevelRecord
from chronik.metadata.sessions import BrokerSessions
from chronik.metadata.writer import Writer
from chronik.runtime.units import NS_PER_MS

if TYPE_CHECKING:
    from immutables import Map

    from chronik.metadata.image import DelegationToken
    from chronik.metadata.store import MetadataStore

WATCH_S = 0.1  # how often the controller looks for dead brokers
# Share of a session after which a broker that applies no metadata is fenced, even if it sends heartbeats.
DEAF_SHARE = 2 / 3
NEVER_MS = 1 << 62
RETRY_S = 0.01  # before a leader that refuses all proposals restarts its controller


class ActiveController:
    """Part of the store. `writer` is set while this node is the controller."""

    def __init__(self, store: MetadataStore, cluster_id: str | None) -> None:
        self.writer: Writer | None = None
        self._store = store
        self._cluster_id = cluster_id
        self._clock, self._config = store.runtime.clock, store.config
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tokens: Map[str, DelegationToken] | None = None  # the tokens that `_token_expiry_ms` was computed from
        self._token_expiry_ms = NEVER_MS

    def begin_if_due(self, heard: BrokerSessions | None = None) -> None:
        """Starts the controller once everything that earlier leaders committed is applied."""
        store = self._store
        if not store.leads or self.writer is not None or store.closed:
            return
        session_ns = self._config.broker_session_timeout_ms * NS_PER_MS
        now_ns = self._clock.monotonic_ns()
        controller = Controller(store.image, self._config.rules, session_timeout_ns=session_ns, now_ns=now_ns)
        if heard is not None:
            controller.sessions.go_on_from(heard)
        self.writer = Writer(
            controller, store.raft, self._clock, batching=self._config.batching, on_failure=self._write_failed
        )
        self._tokens = None
        if not store.image.cluster_id:
            cluster_id = self._cluster_id or draw_cluster_id(store.runtime.randomness)
            levels = [FeatureLevelRecord(name=name, level=at) for name, at in sorted(self._config.features.items())]
            self.writer.write([ClusterRecord(cluster_id=cluster_id), *levels])
        self.watch_sessions()

    def step_down(self, error: NotController | StoreClosed) -> None:
        if self._timer:
            self._timer.cancel()
        if self.writer:
            self.writer.stop(error)
        self.writer = None

    def _write_failed(self) -> None:
        """Discards everything decided since. If this node still leads, it restarts from the applied state."""
        if self._timer:
            self._timer.cancel()  # it belongs to the failed writer; the next one sets its own
        heard = self.writer.controller.sessions if self.writer else None
        self.writer = None
        if self._store.raft.refuses_all:  # it would restart repeatedly until another node leads
            self._loop.call_later(RETRY_S, self.begin_if_due, heard)
        else:
            self.begin_if_due(heard)

    def watch_sessions(self) -> None:
        """Fences brokers that fell silent or died, except the one in this process, which is evidently alive."""
        self._timer = self._loop.call_later(WATCH_S, self.watch_sessions)
        assert self.writer is not None
        store, controller = self._store, self.writer.controller
        self._remove_expired_tokens(controller.newest.tokens)
        gone = set(controller.sessions.expired(self._clock.monotonic_ns()))
        gone.update(self.deaf() & set(controller.sessions.watched()))
        if store.notes is not None:
            gone.update(broker_id for broker_id in controller.sessions.watched() if store.notes.has_died(broker_id))
        for broker_id in sorted(gone):
            broker = controller.newest.brokers.get(broker_id)
            if broker is not None and broker_id != store.node_id:
                request = store.submitter.next_request()
                try:
                    done = self.writer.submit(FenceBroker(broker_id=broker_id, broker_epoch=broker.epoch), request)
                except MetadataRefused:  # too many commands wait; the next check finds the broker just as silent
                    del store.submitter.unanswered[request.sequence]
                    return
                done.add_done_callback(partial(self._answered, request.sequence))

    def _remove_expired_tokens(self, tokens: Map[str, DelegationToken]) -> None:
        """Removes tokens one interval after they expired: until then, logins with them fail as expired, not unknown."""
        if tokens is not self._tokens:
            self._tokens = tokens
            self._token_expiry_ms = min(
                (min(each.expiry_ms, each.max_ms) for each in tokens.values()), default=NEVER_MS
            )
        before_ms = self._clock.wall_ms() - self._config.token_expiry_check_interval_ms
        if before_ms <= self._token_expiry_ms or self.writer is None:
            return
        request = self._store.submitter.next_request()
        try:
            done = self.writer.submit(RemoveExpiredTokens(before_ms=before_ms), request)
        except MetadataRefused:  # too many commands wait
            del self._store.submitter.unanswered[request.sequence]
            return
        self._token_expiry_ms = NEVER_MS  # until the set of tokens changes
        done.add_done_callback(partial(self._answered, request.sequence))

    def deaf(self) -> set[int]:
        """Brokers that send heartbeats but apply no metadata, or whose disks hang: they would lead by an old image."""
        deaf_ms = self._config.broker_session_timeout_ms * DEAF_SHARE
        lags_ms = self._store.raft.lag_ms()
        return {peer for peer, lag_ms in lags_ms.items() if lag_ms > deaf_ms} - {self._store.node_id}

    def _answered(self, sequence: int, done: asyncio.Future[Reply]) -> None:
        """After a failure this node no longer leads, and the next controller keeps its own sessions."""
        del self._store.submitter.unanswered[sequence]
        if not done.cancelled():
            done.exception()
