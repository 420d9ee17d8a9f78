"""What tests of the console share."""

from __future__ import annotations

from tests.oracle.either_broker import unique

__all__ = ["unique"]
