"""Decides what a caller may do: everything (AllowEverything), or what the access rules allow (StandardAuthorizer).

StandardAuthorizer uses `security.deciding` with the rules of this node's newest metadata image. Each connection caches
its allowed actions until the rules change, so that an allowed action costs one lookup, however many rules there are.
`audit` logs denied actions and changes to the cluster.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from chronik.broker.permissions import ALTER, ALTER_CONFIGS, CREATE, DELETE, Operation, Resource
from chronik.runtime.pieces import Work
from chronik.security.deciding import Decision, Policy, decide, deciding_any

if TYPE_CHECKING:
    from chronik.broker.audit import Audit
    from chronik.broker.session import Principal, Session
    from chronik.metadata.access import AccessRules
    from chronik.metadata.image import Image

# Always logged when allowed, so they are not cached. Actions of list requests are not cached either, because there may
# be thousands of names.
CHANGING: Final = frozenset({CREATE, DELETE, ALTER, ALTER_CONFIGS})
# Cached actions of one connection, and cached decisions about resource types of all connections.
KEPT_MAX: Final = 1_000
ANY_NAME: Final = "*"  # stands for "any resource of this type" in the audit log


class Notes(Enum):
    """Which decisions are logged."""

    ALL = "allowed and denied"
    ALLOWED = "allowed: if this is denied, another permission will do"
    NONE = "neither: a list that leaves out what the caller may not see, refuses nothing"


class Authorizer(Protocol):
    restricts: bool  # False: it allows everything, so it need not be called

    def allows(
        self,
        session: Session,
        operation: Operation,
        kind: Resource,
        name: str,
        api: str,
        notes: Notes = Notes.ALL,
    ) -> bool:
        """Whether the session's principal may do this to the resource of this kind and name.

        `api` is the name of the calling API, and `notes` says which decisions are logged.
        """

    def allows_any(self, session: Session, operation: Operation, kind: Resource, api: str) -> Work[bool]:
        """Whether the session's principal may do this to at least one resource of this kind."""


class AllowEverything:
    def __init__(self) -> None:
        self.restricts = False

    def allows(
        self,
        session: Session,
        operation: Operation,
        kind: Resource,
        name: str,
        api: str,
        notes: Notes = Notes.ALL,
    ) -> bool:
        return True

    def allows_any(self, session: Session, operation: Operation, kind: Resource, api: str) -> Work[bool]:
        yield from ()
        return True


class Kept:
    """The allowed actions of a principal under these rules."""

    __slots__ = ("allowed", "principal", "rules")

    def __init__(self, rules: AccessRules, principal: Principal) -> None:
        self.rules = rules
        self.principal = principal
        self.allowed: set[tuple[int, int, str]] = set()


class HasImage(Protocol):
    @property
    def image(self) -> Image: ...


class StandardAuthorizer:
    def __init__(self, store: HasImage, policy: Policy, audit: Audit) -> None:
        self.restricts = True
        self._store = store
        self._policy = policy
        self._audit = audit
        self._any_rules: AccessRules | None = None  # the rules of the decisions below
        self._any: dict[tuple[str, str, int, int], Decision] = {}

    def allows(
        self,
        session: Session,
        operation: Operation,
        kind: Resource,
        name: str,
        api: str,
        notes: Notes = Notes.ALL,
    ) -> bool:
        kept, rules = session.kept, self._store.image.access
        if (
            kept is not None
            and kept.rules is rules
            and (operation, kind, name) in kept.allowed
            and kept.principal is session.principal
        ):
            return True
        decision = decide(rules, str(session.principal), session.host, operation, kind, name, self._policy)
        if decision.allowed and operation not in CHANGING and notes is not Notes.NONE and not self._audit.is_detailed:
            if kept is None or kept.rules is not rules or kept.principal is not session.principal:
                kept = session.kept = Kept(rules, session.principal)
            elif len(kept.allowed) >= KEPT_MAX:
                kept.allowed.clear()
            kept.allowed.add((operation, kind, name))
        if notes is Notes.ALL or (decision.allowed and notes is Notes.ALLOWED):
            self._note(session, operation, kind, name, api, decision)
        return decision.allowed

    def allows_any(self, session: Session, operation: Operation, kind: Resource, api: str) -> Work[bool]:
        rules = self._store.image.access
        key = (str(session.principal), session.host, operation, kind)
        decision = self._any.get(key) if rules is self._any_rules else None
        if decision is None:
            decision = yield from deciding_any(rules, *key, self._policy)
            if rules is not self._any_rules or len(self._any) >= KEPT_MAX:
                self._any_rules = rules
                self._any.clear()
            self._any[key] = decision
        self._note(session, operation, kind, ANY_NAME, api, decision)
        return decision.allowed

    def _note(
        self, session: Session, operation: Operation, kind: Resource, name: str, api: str, decision: Decision
    ) -> None:
        if not decision.allowed:
            self._audit.denied(session, operation, kind, name, api, decision)
        elif operation in CHANGING:
            self._audit.changing(session, operation, kind, name, api, decision)
        else:
            self._audit.allowed(session, operation, kind, name, api, decision)


def may_touch(policy: Policy, actor: Principal, touched: str) -> bool:
    """Whether `actor` may change the credentials of the principal `touched`, such as User:admin.

    Only a super user may change the credentials of a super user: otherwise everyone with permission to alter the
    cluster could become one.
    """
    return touched not in policy.super_users or str(actor) in policy.super_users
