"""The limits of the transaction coordinator, from the broker's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsConfig:
    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 604_800_000
    has_two_phase_commit: bool = False
    write_timeout_ms: int = 5_000
