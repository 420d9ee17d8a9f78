"""Changes when a delegation token expires: renews it, expires it at some time, or removes it at once.

As in Kafka, renewing checks expiry before it checks the requester; expiring checks them in the opposite order.
"""

from __future__ import annotations

from typing import Final

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import refuse
from chronik.metadata.image import DelegationToken
from chronik.metadata.records import RemoveDelegationTokenRecord
from chronik.metadata.token_records import token_record_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import boolean, int64, string

NOW: Final = -1  # as a period: remove the token now


class ChangeDelegationTokenReply(Reply):
    expiry_ms: int64


class ChangeDelegationToken(ControllerCommand[ChangeDelegationTokenReply]):
    token_id: string
    requester: string
    now_ms: int64  # by the clock of the submitting node
    period_ms: int64  # from now until the token expires
    renews: boolean

    def decide(self, state: ControllerState) -> Decision[ChangeDelegationTokenReply]:
        token = state.view.tokens.get(self.token_id)
        if token is None:
            refuse(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, f"there is no delegation token {self.token_id}")
        if self.renews:
            self._require_live(token)
        if not token.belongs_to(self.requester):
            refuse(
                ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
                f"{self.requester} is neither the owner nor a renewer of delegation token {self.token_id}",
            )
        if not self.renews and self.period_ms < 0:
            removal = RemoveDelegationTokenRecord(token_id=self.token_id)
            return Decision([removal], ChangeDelegationTokenReply(expiry_ms=self.now_ms))
        self._require_live(token)
        expiry_ms = min(token.max_ms, self.now_ms + self.period_ms)
        record = token_record_of(self.token_id, token._replace(expiry_ms=expiry_ms))
        return Decision([record], ChangeDelegationTokenReply(expiry_ms=expiry_ms))

    def _require_live(self, token: DelegationToken) -> None:
        if token.is_expired(self.now_ms):
            refuse(ErrorCode.DELEGATION_TOKEN_EXPIRED, f"delegation token {self.token_id} has expired")
