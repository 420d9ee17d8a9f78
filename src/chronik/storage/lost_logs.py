"""Logs that lack records that they acknowledged: finds them, and truncates them before the records are copied again.

Nothing here decides that records may be dropped. The caller of `cut` must know that another replica has them, and that
the cluster does not rely on this one.
"""

from __future__ import annotations

import contextlib
import logging

from chronik.runtime.interfaces import Disk
from chronik.runtime.invariants import check
from chronik.storage.errors import CorruptSegment, LogFull
from chronik.storage.log import Log

logger = logging.getLogger("chronik.storage")


def files_vanished(log: Log) -> None:
    """The active file is no longer in place, and others may be gone with it: appends are refused.

    Other segments are served if they can be read, and every byte is verified: for the last copy of a partition they are
    all there is. Another replica sends everything again, since the extent of the change is unknown.
    """
    last = log.segments[-1]
    reason = "the file was removed, replaced or cut while this node writes to it"
    log.damage = CorruptSegment(last.path, 0, max(last.base_offset, log.start_offset), reason, log.start_offset)
    logger.error("%s", log.damage)
    for segment in log.segments[:-1]:
        segment.let_go_of_files()  # open ones may be gone too
        segment.doubt()
    log.durable_mark = (last.base_offset, last.durable_bytes, log.durable_offset)
    if log.on_lost is not None:
        log.on_lost(log)


def look_for_unsynced(log: Log) -> None:
    """Finds unsynced segments that are gone. Their content counts as damage, and they no longer need a sync.

    Raises LogFull if no file descriptor is available for the check.
    """
    for segment in log.segments:
        if segment.is_synced or segment.is_there():
            continue
        segment.synced_bytes, segment.entry_synced = segment.size_bytes, True
        if segment is log.segments[-1] and log.damage is None:
            files_vanished(log)
        else:
            reason = "the file was removed or replaced before it was synced"
            damage = CorruptSegment(segment.path, 0, segment.base_offset, reason, segment.base_offset)
            logger.error("%s", damage)
            log.met_damage(damage)


def compare_epochs(log: Log, leader_epoch: int) -> None:
    """Detects a batch with a later leader epoch than its partition's: a bit is wrong, which no checksum covers."""
    if log.epochs.latest <= leader_epoch or log.lost is not None:
        return
    offset = next(start for epoch, start in log.epochs.entries() if epoch > leader_epoch)
    if offset >= log.end_offset:
        return  # an epoch in which nothing was written
    segment = [each for each in log.segments if each.base_offset <= offset][-1]
    reason = f"a batch is of leader epoch {log.epochs.latest}, the partition is in epoch {leader_epoch}"
    with contextlib.suppress(CorruptSegment):  # already recorded by its log
        log.met_damage(CorruptSegment(segment.path, segment.position_of(offset), offset, reason))


def cut(log: Log, disk: Disk) -> None:
    """Drops the damage and everything after it, to be fetched again.

    The records before stay, unless more damage is found in them. Raises LogFull, with nothing relevant changed, if
    there is no space to record the truncation.
    """
    lost = log.lost
    if lost is None:
        return
    known = (log.damage, log.rot)
    log.damage = log.rot = None
    try:
        _truncate(log, max(lost.lost_from, log.start_offset))
    except LogFull:
        log.damage, log.rot = known
        raise
    check(
        log.end_offset <= max(lost.lost_from, log.start_offset),
        "22 nothing damaged is left of a log that was cut",
        log=log,
        lost_from=lost.lost_from,
        damage=log.damage,
    )
    for name in disk.list(log.directory):  # files that recovery did not use
        path = f"{log.directory}/{name}"
        if name.endswith(".log") and all(path != segment.path for segment in log.segments):
            disk.remove(path)


def _truncate(log: Log, offset: int) -> None:
    if log.segments and offset > log.start_offset:
        try:
            log.truncate_to(offset)
        except CorruptSegment:  # a batch before it is damaged too, and had to be read
            log.restart_at(log.start_offset)
    else:
        log.restart_at(log.start_offset)
