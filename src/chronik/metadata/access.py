"""Access rules (Kafka's ACLs): who may or may not do what to which resource, as facts of the metadata image.

AccessRules never changes: `with_rule` and `without_rule` return the next one, which shares what they did not touch. Two
images with the same object have the same rules, so its identity serves as the version of the rules. Rules are found by
resource and principal in time that does not grow with their number. What they mean is decided in `security.deciding`.

Numbers are Kafka's ResourceType, PatternType, AclOperation and AclPermissionType.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from immutables import Map

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4  # pattern types; ANY and MATCH only in filters
DENY, ALLOW = 2, 3  # permission types; ANY is 1 in filters
ALL: Final = 2  # of operations
CLUSTER: Final = 4  # of resource types
CLUSTER_RESOURCE: Final = "kafka-cluster"  # the one resource of the type CLUSTER
WILDCARD: Final = "*"  # as the name of a literal pattern, or as a host: all of them
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
    """None and ANY fit everything. MATCH fits the patterns that apply to the resource of this name."""

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


Rules = tuple[AccessRule, ...]
RulesByPrincipal = Map[str, Rules]
NO_RULES: Final[Rules] = ()
NOBODY: Final[RulesByPrincipal] = Map()


class AccessRules:
    """`resources` has the rules of each resource by (pattern type, resource type, name) and by principal.

    `prefix_lengths` has, for each resource type, the lengths of its prefixes in ascending order, with their numbers.
    Prefixes are looked up by length: there may be thousands of prefixes, but their lengths are few.
    """

    __slots__ = ("count", "prefix_lengths", "resources")

    def __init__(
        self,
        resources: Map[tuple[int, int, str], RulesByPrincipal],
        prefix_lengths: Map[int, tuple[tuple[int, int], ...]],
        count: int,
    ) -> None:
        self.resources = resources
        self.prefix_lengths = prefix_lengths
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
        return rule in self.resources.get((rule.pattern, rule.kind, rule.name), NOBODY).get(rule.principal, NO_RULES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessRules) and self.resources == other.resources

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<AccessRules: {self.count}>"

    def with_rule(self, rule: AccessRule) -> AccessRules:
        if rule in self:
            return self
        key = (rule.pattern, rule.kind, rule.name)
        known = self.resources.get(key)
        rules = NO_RULES if known is None else known.get(rule.principal, NO_RULES)
        lengths = self.prefix_lengths
        if known is None and rule.pattern == PREFIXED:
            lengths = _counted(lengths, rule.kind, len(rule.name), 1)
        of_resource = (known or NOBODY).set(rule.principal, tuple(sorted((*rules, rule))))
        return AccessRules(self.resources.set(key, of_resource), lengths, self.count + 1)

    def without_rule(self, rule: AccessRule) -> AccessRules:
        if rule not in self:
            return self
        key = (rule.pattern, rule.kind, rule.name)
        known = self.resources[key]
        rules = tuple(each for each in known[rule.principal] if each != rule)
        known = known.set(rule.principal, rules) if rules else known.delete(rule.principal)
        if known:
            return AccessRules(self.resources.set(key, known), self.prefix_lengths, self.count - 1)
        lengths = self.prefix_lengths
        if rule.pattern == PREFIXED:
            lengths = _counted(lengths, rule.kind, len(rule.name), -1)
        return AccessRules(self.resources.delete(key), lengths, self.count - 1)

    def applying_to(self, kind: int, name: str) -> Iterator[RulesByPrincipal]:
        """Of each pattern that the resource fits: the literal one, prefixes from the shortest, and the wildcard."""
        resources = self.resources
        if (literal := resources.get((LITERAL, kind, name))) is not None:
            yield literal
        for length, _ in self.prefix_lengths.get(kind, ()):
            if length > len(name):
                break
            if (prefixed := resources.get((PREFIXED, kind, name[:length]))) is not None:
                yield prefixed
        if name != WILDCARD and (wildcard := resources.get((LITERAL, kind, WILDCARD))) is not None:
            yield wildcard

    def of_kind(self, kind: int) -> Iterator[tuple[int, str, RulesByPrincipal]]:
        """(pattern type, name, rules) of each pattern of this resource type."""
        for (pattern, of, name), known in self.resources.items():
            if of == kind:
                yield pattern, name, known

    def found(self, wanted: RuleFilter) -> list[AccessRule]:
        """In ascending order."""
        if wanted.pattern in (LITERAL, PREFIXED) and wanted.kind != ANY and wanted.name is not None:
            known = self.resources.get((wanted.pattern, wanted.kind, wanted.name), NOBODY)
            return sorted(rule for rules in known.values() for rule in rules if wanted.fits(rule))
        return sorted(rule for rule in self.unordered() if wanted.fits(rule))


def _counted(
    lengths: Map[int, tuple[tuple[int, int], ...]], kind: int, length: int, change: int
) -> Map[int, tuple[tuple[int, int], ...]]:
    counts = dict(lengths.get(kind, ()))
    counts[length] = counts.get(length, 0) + change
    left = tuple(sorted((each, count) for each, count in counts.items() if count))
    return lengths.set(kind, left) if left else lengths.delete(kind)


NO_ACCESS_RULES: Final = AccessRules(Map(), Map(), 0)
