"""Logs that lack what they acknowledged: what is known of them, and how room is made for a copy of another replica.

Nothing here decides that records may go. Whoever calls `cut` knows that another replica has them, and that nobody
counts on this one.
"""

from __future__ import annotations

import logging

from chronik.runtime.interfaces import Disk
from chronik.runtime.invariants import check
from chronik.storage.errors import CorruptSegment, LogFull
from chronik.storage.log import Log

logger = logging.getLogger("chronik.storage")


def files_vanished(log: Log) -> None:
    """The file that is written to is not in place any more, and others may be gone with it: nothing is appended."""
    last = log.segments[-1]
    reason = "the file was removed or replaced while this node writes to it"
    log.damage = CorruptSegment(last.path, 0, log.start_offset, reason)
    logger.error("%s", log.damage)
    log.durable_mark = (last.base_offset, last.durable_bytes, log.durable_offset)
    if log.on_lost is not None:
        log.on_lost(log)


def cut(log: Log, disk: Disk) -> None:
    """Drops what is damaged and all behind it, to be fetched again.

    What lies before stays, unless more damage turns up in it. Raises LogFull, having changed nothing that matters, when
    there is no room to write down what is dropped.
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
    for name in disk.list(log.directory):  # files that recovery did not take up
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
