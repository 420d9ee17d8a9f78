"""Files that a node keeps beside the quorum's log: its owner, its process number, and whether it lost its log.

`owner` names the node: two voters that exchanged their logs would each forget their votes. `incarnation` is the number
of the newest process. It is written after the log, so its presence also proves that there was a log. `joining` exists
from when a node finds that it is new in its cluster, or has lost its log, until it has caught up, across all restarts:
until then it may lack entries that it acknowledged.
"""

from __future__ import annotations

from chronik.metadata.errors import ForeignMetadata, MetadataOutdated, NotANumber
from chronik.runtime.interfaces import Runtime

# Milliseconds until the year 2248. Question and lease numbers have it in their upper bits.
INCARNATION_MAX = 1 << 43
INCARNATION_DIGITS_MAX = 13


class OwnFiles:
    def __init__(self, runtime: Runtime, directory: str, node_id: int) -> None:
        self._disk, self._clock, self.directory = runtime.disk, runtime.clock, directory
        self._node_id = node_id
        self._incarnation_path, self._joining_path = f"{directory}/incarnation", f"{directory}/joining"
        self._owner_path = f"{directory}/owner"
        self.log_directory = f"{directory}/raft"
        self._disk.make_directory(directory)

    def require_own(self) -> None:
        """Raises ForeignMetadata if the directory belongs to another node."""
        if self._disk.exists(self._owner_path):
            owner = self._disk.read_file(self._owner_path).decode("latin-1").strip()
            if owner != str(self._node_id):
                raise ForeignMetadata(self.directory, owner, self._node_id)

    def next_incarnation(self) -> int:
        """Higher than all earlier ones of this node: the stored number plus one, or the clock in a new directory."""
        path = self._incarnation_path
        earlier = self._read_number(path) if self._disk.exists(path) else 0
        return max(earlier + 1, self._clock.wall_ms())

    def _read_number(self, path: str) -> int:
        data = self._disk.read_file(path)
        digits = data.strip()
        if not digits.isdigit() or len(digits) > INCARNATION_DIGITS_MAX or int(digits) >= INCARNATION_MAX:
            raise NotANumber(path, data, self.log_directory)
        return int(digits)

    def keep_incarnation(self, incarnation: int) -> None:
        """Call this after the log's first write and before the process sends any request."""
        if not self._disk.exists(self._owner_path):
            self._disk.replace_file(self._owner_path, b"%d\n" % self._node_id)
        self._disk.replace_file(self._incarnation_path, b"%d\n" % incarnation)

    def has_lost_its_log(self, *, is_used: bool) -> bool:
        """Whether a log existed, with this node's votes and acknowledgements, and is missing.

        `is_used` means that this node was in a cluster before, even if nothing in the directory shows it.
        """
        return (is_used or self._disk.exists(self._incarnation_path)) and not self._disk.list(self.log_directory)

    def require_applied(self, last_index: int, *, index_min: int, is_alone: bool) -> None:
        """A log that ends before what was applied is an old copy: this node must catch up before it votes.

        Raises MetadataOutdated if no other node can provide the rest. A joining node may have less than it once had.
        """
        if last_index < index_min and not self.is_joining:
            if is_alone:
                raise MetadataOutdated(self.directory, last_index, index_min)
            self.begin_joining()

    @property
    def is_joining(self) -> bool:
        return self._disk.exists(self._joining_path)

    def begin_joining(self) -> None:
        self._disk.replace_file(self._joining_path, b"")

    def end_joining(self) -> None:
        self._disk.remove(self._joining_path)
        self._disk.sync_directory(self.directory)
