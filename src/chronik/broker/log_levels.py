"""Log levels of a running node, under Kafka's names. They apply to this node only, until the process ends.

A logger without a level uses the level of its parent; `root` is the parent of all and always has a level.
"""

from __future__ import annotations

import logging

ROOT = "root"
OURS = "chronik"
TRACE = 5

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """The effective level of the root logger and of every Chronik logger."""
    known = sorted(name for name in logging.root.manager.loggerDict if name.split(".")[0] == OURS)
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in (ROOT, *known)}


def set_level(name: str, level: str | None) -> None:
    """Sets the level; None removes the logger's own level."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name_of(number: int) -> str:
    """The coarsest level name that still includes messages of this number."""
    return next((name for name, least in LEVELS.items() if least <= number), "TRACE")
