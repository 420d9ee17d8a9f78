"""Delegation tokens as records of the metadata log."""

from __future__ import annotations

from chronik.metadata.image import DelegationToken
from chronik.metadata.records import DelegationTokenRecord


def token_record_of(token_id: str, token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        token_id=token_id,
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_ms=token.issue_ms,
        expiry_ms=token.expiry_ms,
        max_ms=token.max_ms,
    )
