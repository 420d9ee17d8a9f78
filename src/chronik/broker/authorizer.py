"""Decides what a caller may do. This release has no access rules: everybody may do everything, and this says so."""

from __future__ import annotations

from typing import Protocol

from chronik.broker.permissions import Operation, Resource
from chronik.broker.session import Session


class Authorizer(Protocol):
    def allows(self, session: Session, operation: Operation, kind: Resource, name: str) -> bool:
        """Whether the session's principal may do this to the resource of this kind and name."""


class AllowEverything:
    def allows(self, session: Session, operation: Operation, kind: Resource, name: str) -> bool:
        return True
