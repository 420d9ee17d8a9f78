"""Removes expired delegation tokens. The controller submits this itself.

Its timing does not matter: an expired token is refused everywhere.
"""

from __future__ import annotations

import heapq
from typing import Final

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.records import RemoveDelegationTokenRecord
from chronik.wire.notation import int64

REMOVED_MAX: Final = 500  # per command; the next one removes more


class RemoveExpiredTokensReply(Reply):
    pass


class RemoveExpiredTokens(ControllerCommand[RemoveExpiredTokensReply]):
    before_ms: int64  # tokens that expired before this time are removed

    def decide(self, state: ControllerState) -> Decision[RemoveExpiredTokensReply]:
        tokens = state.view.tokens
        expired = (token_id for token_id, token in tokens.items() if token.is_expired(self.before_ms))
        gone = heapq.nsmallest(REMOVED_MAX, expired)
        return Decision([RemoveDelegationTokenRecord(token_id=each) for each in gone], RemoveExpiredTokensReply())
