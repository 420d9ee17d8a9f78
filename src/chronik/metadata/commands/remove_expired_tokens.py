"""Removes delegation tokens that have expired. The controller submits this itself.

Nothing depends on when this happens: a token that has expired is refused wherever it is used.
"""

from __future__ import annotations

import heapq
from typing import Final

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.records import RemoveDelegationTokenRecord
from chronik.wire.notation import int64

REMOVED_MAX: Final = 500  # by one command; the rest follows


class RemoveExpiredTokensReply(Reply):
    pass


class RemoveExpiredTokens(ControllerCommand[RemoveExpiredTokensReply]):
    before_ms: int64  # removed are tokens that expired before this time

    def decide(self, state: ControllerState) -> Decision[RemoveExpiredTokensReply]:
        tokens = state.view.tokens
        expired = (token_id for token_id, token in tokens.items() if token.is_expired(self.before_ms))
        gone = heapq.nsmallest(REMOVED_MAX, expired)
        return Decision([RemoveDelegationTokenRecord(token_id=each) for each in gone], RemoveExpiredTokensReply())
