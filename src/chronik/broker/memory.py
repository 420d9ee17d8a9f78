"""One budget for the memory that a node uses on behalf of clients: large frames wait for it, and fetches read less.

A large frame gets memory as its bytes arrive, not when its size is announced. Grants are in order of request, and
frames that have begun come before new ones. The frames of one address get only a share of the budget, so other
addresses always make progress. When the budget is used up, one frame that has begun may exceed it by its own size;
otherwise frames that have all begun could wait for each other forever.

Frames that fit the shared scratch buffer do not wait. They are counted while their handlers work, and a connection with
requests in progress starts no more of them while the budget is used up. Responses are counted when a peer does not read
them. A fetch response that is built over several loop iterations is counted from the moment when its size is chosen, so
that two responses never use the same room. A fetch that finds no memory reads one batch, so that its consumer always
makes progress.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from itertools import count, pairwise
from typing import NamedTuple

from chronik.runtime.invariants import broken

Granted = Callable[[], None]


class _Wait(NamedTuple):
    number: int  # in the order of requests; frames that have begun come first
    size_bytes: int
    granted: Granted
    has_begun: bool


class MemoryBudget:
    """`host_bytes_max` is the share of one address; default: the whole budget."""

    def __init__(self, size_bytes: int, host_bytes_max: int | None = None) -> None:
        self.size_bytes = size_bytes
        self.used_bytes = 0  # of large frames, granted and not released yet
        self.small_bytes = 0  # of small frames, and of the objects that long requests are decoded into
        self.unsent_bytes = 0  # of responses that are being built or that peers do not read
        self.kept_bytes = 0  # of data kept between requests: fetch sessions, group members
        self.overdrawn_by: Granted | None = None  # the frame that may exceed the budget
        self._host_bytes_max = size_bytes if host_bytes_max is None else host_bytes_max
        self._by_host: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Wait]] = {}  # by address; frames that have begun come first
        self._numbers, self._begun_numbers = count(), count(-(2**62))

    @property
    def is_spent(self) -> bool:
        return self.room_bytes < 0

    @property
    def is_short(self) -> bool:
        """Whether some request gets less memory because of what others hold."""
        return bool(self._waiting) or self.room_bytes < self.size_bytes // 8

    @property
    def room_bytes(self) -> int:
        return self.size_bytes - self.used_bytes - self.small_bytes - self.unsent_bytes - self.kept_bytes

    def hold_unsent(self, size_bytes: int) -> None:
        """Adds unsent bytes, or removes them if negative."""
        self.unsent_bytes += size_bytes
        if self.unsent_bytes < 0:
            broken("26 replies are counted while they are unsent", unsent=self.unsent_bytes, change=size_bytes)
        if size_bytes < 0:
            self._grant()

    def keep(self, size_bytes: int) -> None:
        """Adds bytes that are kept between requests, or removes them if negative."""
        self.kept_bytes += size_bytes
        if self.kept_bytes < 0:
            broken("26 what is kept between requests is counted", kept=self.kept_bytes, change=size_bytes)
        if size_bytes < 0:
            self._grant()

    def take(self, size_bytes: int, host: str = "", *, begun_by: Granted | None = None) -> bool:
        """Returns whether the bytes were granted. A frame larger than the whole budget is granted when nothing else is
        held. `begun_by` is the argument of `wait` for a frame that already holds memory."""
        # The other frames wait until this one is complete.
        may_exceed = begun_by is not None and self.overdrawn_by == begun_by
        if self._waiting and not may_exceed and self._is_anybody_ahead(host, has_begun=begun_by is not None):
            return False
        return self._take(size_bytes, host, begun_by)

    def wait(self, size_bytes: int, granted: Granted, host: str = "", *, has_begun: bool = False) -> None:
        """Calls `granted` once the bytes have been taken for the caller."""
        queue = self._waiting.setdefault(host, deque())
        if not has_begun:
            queue.append(_Wait(next(self._numbers), size_bytes, granted, has_begun))
            return
        if any(late.has_begun and not early.has_begun for early, late in pairwise(queue)):
            broken("23 frames that have begun come first", host=host, waiting=len(queue))
        made = _Wait(next(self._begun_numbers), size_bytes, granted, has_begun)
        queue.insert(sum(each.has_begun for each in queue), made)
        self._grant()  # it may be the one that may exceed the budget

    def give_back(self, size_bytes: int, host: str = "") -> None:
        self.used_bytes -= size_bytes
        self._by_host[host] -= size_bytes
        if self.used_bytes < 0 or self._by_host[host] < 0:
            broken("26 no frame gives back more than it took", used=self.used_bytes, host=host, size=size_bytes)
        if self._by_host[host] <= 0:
            del self._by_host[host]  # clients choose their addresses, so unused entries must not pile up
            if self.used_bytes and not self._by_host:
                broken("26 all that is used is some address's", used=self.used_bytes)
        if self._waiting:
            self._grant()

    def forget(self, granted: Granted) -> None:
        """The connection is closed; waiters behind it may fit now."""
        self.ended(granted)
        if self._waiting:
            for host, queue in list(self._waiting.items()):
                self._waiting[host] = deque(each for each in queue if each.granted != granted)
                if not self._waiting[host]:
                    del self._waiting[host]
            self._grant()

    def ended(self, granted: Granted) -> None:
        """The frame is complete, or its connection is closed: another one may exceed the budget now."""
        if self.overdrawn_by is not None and self.overdrawn_by == granted:
            self.overdrawn_by = None
            self._grant()

    # ---

    def _is_anybody_ahead(self, host: str, *, has_begun: bool) -> bool:
        """Whether another waiter would be granted first. One that waits for its address's share does not block other
        addresses."""
        for other, queue in self._waiting.items():
            if has_begun and not queue[0].has_begun:
                continue
            if other == host or self._is_within_share(queue[0].size_bytes, other):
                return True
        return False

    def _grant(self) -> None:
        while self._waiting:
            heads = [
                (queue[0].number, host)
                for host, queue in self._waiting.items()
                if self._is_within_share(queue[0].size_bytes, host) or queue[0].has_begun
            ]
            for _, host in sorted(heads):
                queue = self._waiting[host]
                head = queue[0]
                if self._take(head.size_bytes, host, head.granted if head.has_begun else None):
                    # Take it before calling others, so that the next waiter sees it taken.
                    queue.popleft()
                    if not queue:
                        del self._waiting[host]
                    head.granted()
                    break
                if self._is_within_share(head.size_bytes, host):
                    return  # the whole budget is used up, so later waiters must wait too
            else:
                return

    def _take(self, size_bytes: int, host: str, begun_by: Granted | None) -> bool:
        if not (self._has_room(size_bytes) and self._is_within_share(size_bytes, host)):
            if begun_by is None or not self._may_exceed(begun_by):
                return False
            if self.overdrawn_by not in (None, begun_by):
                broken("23 one frame may exceed the budget", used=self.used_bytes, budget=self.size_bytes)
            self.overdrawn_by = begun_by
        self.used_bytes += size_bytes
        self._by_host[host] += size_bytes
        if self.overdrawn_by is None and self.used_bytes > max(self.size_bytes, size_bytes):
            broken("23 frames stay within the budget", used=self.used_bytes, budget=self.size_bytes, frame=size_bytes)
        return True

    def _may_exceed(self, begun_by: Granted) -> bool:
        if self.overdrawn_by is not None:
            return self.overdrawn_by == begun_by
        return self.used_bytes + self.unsent_bytes + self.kept_bytes <= self.size_bytes

    def _has_room(self, size_bytes: int) -> bool:
        held_bytes = self.used_bytes + self.unsent_bytes + self.kept_bytes
        return not self.used_bytes or held_bytes + size_bytes <= self.size_bytes

    def _is_within_share(self, size_bytes: int, host: str) -> bool:
        held_bytes = self._by_host.get(host, 0)
        return not held_bytes or held_bytes + size_bytes <= self._host_bytes_max
