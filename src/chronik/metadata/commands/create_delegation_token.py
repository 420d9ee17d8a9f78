"""Creates a delegation token. The submitting broker checks permission and lifetime."""

from __future__ import annotations

from typing import Final

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import refuse
from chronik.metadata.image import DelegationToken
from chronik.metadata.token_records import token_record_of
from chronik.runtime.interfaces import Randomness
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import int64, string
from chronik.wire.uuids import uuid_text

TOKENS_MAX: Final = 10_000  # every node holds all in memory, and computes their secrets to look one up
RENEWERS_MAX: Final = 100
ID_BYTES: Final = 16


class CreateDelegationTokenReply(Reply):
    token_id: string


class CreateDelegationToken(ControllerCommand[CreateDelegationTokenReply]):
    owner: string
    requester: string
    renewers: list[string]
    issue_ms: int64
    expiry_ms: int64
    max_ms: int64
    token_id: string = ""

    def draw_ids(self, randomness: Randomness) -> None:
        while not self.token_id or self.token_id.startswith("-"):  # a command line would read it as an option
            self.token_id = uuid_text(randomness.bytes(ID_BYTES))

    def decide(self, state: ControllerState) -> Decision[CreateDelegationTokenReply]:
        view = state.view
        if len(view.tokens) >= TOKENS_MAX:
            refuse(
                ErrorCode.POLICY_VIOLATION,
                f"the cluster has {len(view.tokens)} delegation tokens, the most that it can have: expire some",
            )
        if len(self.renewers) > RENEWERS_MAX:
            refuse(
                ErrorCode.INVALID_REQUEST, f"a delegation token has {len(self.renewers)} renewers, over {RENEWERS_MAX}"
            )
        if self.token_id in view.tokens:
            refuse(ErrorCode.DUPLICATE_RESOURCE, f"there is a delegation token {self.token_id} already")
        token = DelegationToken(
            self.owner, self.requester, tuple(self.renewers), self.issue_ms, self.expiry_ms, self.max_ms
        )
        return Decision([token_record_of(self.token_id, token)], CreateDelegationTokenReply(token_id=self.token_id))
