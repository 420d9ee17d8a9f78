"""Access rules (Kafka's ACLs): which principal may do what to which resource, as part of the metadata image.

AccessRules is immutable: `with_rule` and `without_rule` return a new object that shares all unchanged parts. The same
object means the same rules, so its identity serves as their version. Lookups by resource, principal and host take
constant time however many rules exist: at most two rules per operation share all three. `security.deciding` evaluates
the rules.

Numbers are Kafka's ResourceType, PatternType, AclOperation and AclPermissionType.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from immutables import Map

from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, at_once, in_order

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4  # pattern types; ANY and MATCH only in filters
DENY, ALLOW = 2, 3  # permission types; ANY is 1 in filters
ALL: Final = 2  # of operations
CLUSTER: Final = 4  # of resource types
CLUSTER_RESOURCE: Final = "kafka-cluster"  # the one resource of the type CLUSTER
WILDCARD: Final = "*"  # as the name of a literal pattern, or as a host: any
EVERYBODY: Final = "User:*"


class AccessRule(NamedTuple):
    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class RuleFilter(NamedTuple):
    """None and ANY match everything. MATCH matches the patterns that apply to the resource of this name."""

    kind: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def fits(self, rule: AccessRule) -> bool:
        return (
            self.kind in (ANY, rule.kind)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (ANY, rule.operation)
            and self.permission in (ANY, rule.permission)
            and self._fits_pattern(rule)
        )

    def _fits_pattern(self, rule: AccessRule) -> bool:
        if self.pattern not in (ANY, MATCH, rule.pattern):
            return False
        if self.name in (None, rule.name):
            return True
        if self.pattern != MATCH or self.name is None:
            return False
        return self.name.startswith(rule.name) if rule.pattern == PREFIXED else rule.name == WILDCARD


class Who(NamedTuple):
    """Principal and host as in a rule: User:* and * match all."""

    principal: str
    host: str


Rules = tuple[AccessRule, ...]
RulesByWho = Map[Who, Rules]
RulesByPattern = Map[tuple[int, str], Rules]  # by pattern type and name
NO_RULES: Final[Rules] = ()
NOBODY: Final[RulesByWho] = Map()
NOTHING: Final[RulesByPattern] = Map()


class AccessRules:
    """`resources` holds the rules by (pattern type, resource type, name), then by principal and host; `patterns` holds
    the same rules by resource type, principal and host, then by pattern.

    `prefix_lengths` holds, for each resource type, the lengths of its prefixes in ascending order, and `prefix_counts`
    the number of prefixes of each length. Prefixes are looked up by length: there may be thousands of prefixes, but
    only a few lengths.
    """

    __slots__ = ("count", "patterns", "prefix_counts", "prefix_lengths", "resources")

    def __init__(
        self,
        resources: Map[tuple[int, int, str], RulesByWho],
        patterns: Map[tuple[int, Who], RulesByPattern],
        prefix_lengths: Map[int, tuple[int, ...]],
        prefix_counts: Map[tuple[int, int], int],
        count: int,
    ) -> None:
        self.resources = resources
        self.patterns = patterns
        self.prefix_lengths = prefix_lengths
        self.prefix_counts = prefix_counts
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[AccessRule]:
        """In ascending order."""
        return iter(sorted(self.unordered()))

    def unordered(self) -> Iterator[AccessRule]:
        return (rule for known in self.resources.values() for rules in known.values() for rule in rules)

    def __contains__(self, rule: object) -> bool:
        if not isinstance(rule, AccessRule):
            return False
        known = self.resources.get((rule.pattern, rule.kind, rule.name), NOBODY)
        return rule in known.get(Who(rule.principal, rule.host), NO_RULES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessRules) and self.resources == other.resources

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<AccessRules: {self.count}>"

    def with_rule(self, rule: AccessRule) -> AccessRules:
        if rule in self:
            return self
        known = self.resources.get((rule.pattern, rule.kind, rule.name), NOBODY)
        rules = known.get(Who(rule.principal, rule.host), NO_RULES)
        return self._changed(rule, known, tuple(sorted((*rules, rule))), 1)

    def without_rule(self, rule: AccessRule) -> AccessRules:
        if rule not in self:
            return self
        known = self.resources[(rule.pattern, rule.kind, rule.name)]
        rules = known[Who(rule.principal, rule.host)]
        return self._changed(rule, known, tuple(each for each in rules if each != rule), -1)

    def _changed(self, rule: AccessRule, known: RulesByWho, rules: Rules, change: int) -> AccessRules:
        """A copy with `rules` in place of those with `rule`'s resource, principal and host. `change` is +1 or -1."""
        resource, who = (rule.pattern, rule.kind, rule.name), Who(rule.principal, rule.host)
        named = self.patterns.get((rule.kind, who), NOTHING)
        left = known.set(who, rules) if rules else known.delete(who)
        named = named.set((rule.pattern, rule.name), rules) if rules else named.delete((rule.pattern, rule.name))
        lengths, counts = self.prefix_lengths, self.prefix_counts
        if rule.pattern == PREFIXED and bool(known) != bool(left):
            key = (rule.kind, len(rule.name))
            before = counts.get(key, 0)
            counts = counts.set(key, before + change) if before + change else counts.delete(key)
            if not before:
                lengths = lengths.set(rule.kind, tuple(sorted((*lengths.get(rule.kind, ()), key[1]))))
            elif not before + change:
                fewer = tuple(length for length in lengths[rule.kind] if length != key[1])
                lengths = lengths.set(rule.kind, fewer) if fewer else lengths.delete(rule.kind)
        return AccessRules(
            self.resources.set(resource, left) if left else self.resources.delete(resource),
            self.patterns.set((rule.kind, who), named) if named else self.patterns.delete((rule.kind, who)),
            lengths,
            counts,
            self.count + change,
        )

    def applying_to(self, kind: int, name: str) -> Iterator[RulesByWho]:
        """The rules of each matching pattern: the literal one, prefixes from the shortest, and the wildcard."""
        resources = self.resources
        if (literal := resources.get((LITERAL, kind, name))) is not None:
            yield literal
        for length in self.prefix_lengths.get(kind, ()):
            if length > len(name):
                break
            if (prefixed := resources.get((PREFIXED, kind, name[:length]))) is not None:
                yield prefixed
        if name != WILDCARD and (wildcard := resources.get((LITERAL, kind, WILDCARD))) is not None:
            yield wildcard

    def of(self, kind: int, who: Who) -> RulesByPattern:
        """The rules with exactly this principal and host for resources of this type."""
        return self.patterns.get((kind, who), NOTHING)

    def found(self, wanted: RuleFilter) -> list[AccessRule]:
        """In ascending order."""
        return at_once(self.finding(wanted))

    def finding(self, wanted: RuleFilter) -> Work[list[AccessRule]]:
        """Like `found`, in slices. A filter that specifies a complete rule is found without examining other rules."""
        found = []
        for count, rule in enumerate(self._candidates(wanted), 1):
            if wanted.fits(rule):
                found.append(rule)
            if count % ITEMS_PER_PIECE == 0:
                yield 1
        return (yield from in_order(found))

    def _candidates(self, wanted: RuleFilter) -> Iterable[AccessRule]:
        if wanted.pattern not in (LITERAL, PREFIXED) or wanted.kind == ANY or wanted.name is None:
            return self.unordered()
        known = self.resources.get((wanted.pattern, wanted.kind, wanted.name), NOBODY)
        if wanted.principal is not None and wanted.host is not None:
            return known.get(Who(wanted.principal, wanted.host), NO_RULES)
        return (rule for rules in known.values() for rule in rules)


NO_ACCESS_RULES: Final = AccessRules(Map(), Map(), Map(), Map(), 0)
