"""`chronik acl`: list, add, remove and explain the rules that say who may do what."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from chronik.cli.acl_words import (
    CLUSTER,
    CLUSTER_NAME,
    GROUP,
    NO_RESOURCES,
    TOPIC,
    TRANSACTIONAL_ID,
    Resources,
    operation_of,
    principal_of,
    row_of,
    rules_of,
)
from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, Row, print_json, print_rows
from chronik.cli.session import DEFAULTS, Options, confirm, run
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chronik.client.routing import ClusterClient
    from chronik.metadata.access import AccessRule, AccessRules, RuleFilter
    from chronik.security.deciding import Policy
    from chronik.security.impact import Resource

app = App(
    name="acl",
    help="""\
List, add, remove and explain access rules (ACLs).

A rule allows or denies a principal an operation on a resource. What no rule allows is denied, and a rule that
denies wins. Brokers need authorizer.class.name.

For example:
  chronik acl list
  chronik acl add --principal alice --operation read --topic orders
  chronik acl add --producer --principal billing --topic pay --prefix
  chronik acl explain --principal alice --operation write --topic orders
  chronik acl remove --principal alice --topic orders""",
)

LISTED_COLUMNS = (
    Column("resource_type", "TYPE"),
    Column("resource_name", "NAME"),
    Column("pattern", "PATTERN"),
    Column("principal", "PRINCIPAL"),
    Column("permission", "PERMISSION"),
    Column("operation", "OPERATION"),
    Column("host", "HOST"),
)
CHANGED_COLUMNS = (
    Column("principal", "PRINCIPAL"),
    Column("operation", "OPERATION"),
    Column("resource", "RESOURCE"),
    Column("host", "HOST"),
    Column("change", "CHANGE"),
)
NO_CHANGE = "Nothing would change for any principal and resource that is known."
READ, WRITE, CREATE, DESCRIBE = "read", "write", "create", "describe"

Principals = Annotated[tuple[str, ...], Parameter(name=["--principal", "-u"])]
Operations = Annotated[tuple[str, ...], Parameter(name=["--operation", "-o"])]


@app.command(name="list")
def list_rules(
    *,
    principal: Principals = (),
    operation: Operations = (),
    matching: bool = False,
    resources: Resources = NO_RESOURCES,
    options: WatchOptions = WATCH_DEFAULTS,
) -> int:
    """List rules.

    For example:
      chronik acl list --principal alice
      chronik acl list --topic orders --matching

    Parameters
    ----------
    principal
        Only of this principal; a name without a type is a user; repeatable.
    operation
        Only for this operation, such as read; repeatable.
    matching
        Also rules with a prefix or * that apply to the resource.
    """

    async def work(cluster: ClusterClient) -> None:
        found = await _found(cluster, principal, operation, resources, matching=matching)
        rows: list[Row] = [row_of(rule) for rule in found]
        print_rows(rows, LISTED_COLUMNS, as_json=options.wants_json, empty="There are no such rules.")

    return show(options, work)


@app.command
def add(
    *,
    principal: Principals = (),
    operation: Operations = (),
    producer: bool = False,
    consumer: bool = False,
    deny: bool = False,
    prefix: bool = False,
    host: tuple[str, ...] = ("*",),
    dry_run: bool = False,
    resources: Resources = NO_RESOURCES,
    options: Options = DEFAULTS,
) -> int:
    """Add rules, one for each combination of principal, operation, resource and host.

    For example:
      chronik acl add --principal alice --operation read --topic orders
      chronik acl add --consumer --principal billing --topic orders --group billing
      chronik acl add --deny --principal "*" --operation all --topic secret --prefix --dry-run

    Parameters
    ----------
    principal
        Principal of the rule: alice, User:alice, or * for everybody; repeatable.
    operation
        read, write, create, delete, alter, describe, all and others; repeatable.
    producer
        All that a producer needs for the topics and transactional ids: write, create and describe.
    consumer
        All that a consumer needs: read and describe the topics, read the groups.
    deny
        Deny instead of allow.
    prefix
        Names are prefixes: the rule is for all resources whose names begin so.
    host
        Only for clients at this address; repeatable. Default: all.
    dry_run
        Add nothing; show what would change, for every known principal and resource.
    """
    if not principal:
        raise Misused("the rule has no principal. Name a --principal, such as alice, or * for all users")
    wanted = _wanted(
        principal, operation, host, resources, producer=producer, consumer=consumer, deny=deny, prefix=prefix
    )

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import acls

        if dry_run:
            changes = await _impact(cluster, added=wanted)
            print_rows(changes, CHANGED_COLUMNS, as_json=options.wants_json, empty=NO_CHANGE)
            return
        known = set(await _found(cluster, (), (), NO_RESOURCES, matching=False))
        await acls.create(cluster, wanted)
        rows: list[Row] = [{**row_of(rule), "is_new": rule not in known} for rule in wanted]
        if options.wants_json:
            print_json(rows)
            return
        from chronik.security.words import rule_text

        for rule in wanted:
            print(f"{'exists' if rule in known else 'added'}: {rule_text(rule)}")

    return run(options, work)


@app.command
def remove(
    *,
    principal: Principals = (),
    operation: Operations = (),
    matching: bool = False,
    every: Annotated[bool, Parameter(name="--all")] = False,
    dry_run: bool = False,
    resources: Resources = NO_RESOURCES,
    options: Options = DEFAULTS,
) -> int:
    """Remove the rules that `list` shows for the same options.

    For example:
      chronik acl remove --principal alice --topic orders --dry-run
      chronik acl remove --principal alice --topic orders
      chronik acl remove --all

    Parameters
    ----------
    principal
        Only of this principal; repeatable.
    operation
        Only for this operation; repeatable.
    matching
        Also rules with a prefix or * that apply to the resource. They apply to other resources too.
    every
        Remove all rules of the cluster. Then only super users may do anything.
    dry_run
        Remove nothing; show the rules, and what would change for every known principal and resource.
    """
    if not (principal or operation or resources.named or every):
        raise Misused("which rules? Name a --principal, --operation or resource; --all removes every rule")

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.admin import acls
        from chronik.security.words import rule_text

        found = await _found(cluster, principal, operation, resources, matching=matching)
        if not found:
            known = await _found(cluster, (), (), NO_RESOURCES, matching=False)
            raise CommandFailed(f"there are no such rules{_nearest(principal, resources, known)}")
        if dry_run:
            changes = await _impact(cluster, removed=found)
            if options.wants_json:
                print_json({"rules": [row_of(rule) for rule in found], "changes": changes})
                return
            for rule in found:
                print(f"would be removed: {rule_text(rule)}")
            print_rows(changes, CHANGED_COLUMNS, as_json=False, empty=NO_CHANGE)
            return
        for rule in found:
            print(rule_text(rule), file=sys.stderr)
        confirm(f"Remove {len(found)} {'rule' if len(found) == 1 else 'rules'}?")
        await acls.delete(cluster, found)
        if options.wants_json:
            print_json([row_of(rule) for rule in found])
        else:
            print(f"{len(found)} {'rule' if len(found) == 1 else 'rules'} removed")

    return run(options, work)


@app.command
def explain(
    *,
    principal: str,
    operation: str,
    host: str = "*",
    resources: Resources = NO_RESOURCES,
    options: Options = DEFAULTS,
) -> int:
    """Say whether a principal may do something, and which rule decides that.

    For example:
      chronik acl explain --principal alice --operation write --topic orders
      chronik acl explain --principal alice --operation read --group g --host 10.0.0.7

    Parameters
    ----------
    principal
        Who: alice or User:alice.
    operation
        What: read, write, create, delete, alter, describe and others.
    host
        From which address. Default: one that no rule names.
    """
    who, number, named = principal_of(principal), operation_of(operation), resources.named
    if len(named) != 1:
        raise Misused("name one resource: --topic, --group, --transactional-id or --cluster")
    [(kind, name)] = named

    async def work(cluster: ClusterClient) -> None:
        from chronik.cli.acl_explaining import explained
        from chronik.security.deciding import decide

        access, policy = await _state(cluster)
        decision = decide(access, who, host, number, kind, name, policy)
        others = [rule for known in access.applying_to(kind, name) for rules in known.values() for rule in rules]
        if options.wants_json:
            print_json(
                {
                    "allowed": decision.allowed,
                    "why": decision.why.value,
                    "rule": None if decision.rule is None else row_of(decision.rule),
                    "applying": [row_of(rule) for rule in sorted(others)],
                }
            )
            return
        for line in explained(decision, who, host, number, kind, name, others):
            print(line)

    return run(options, work)


def _wanted(
    principal: tuple[str, ...],
    operation: tuple[str, ...],
    host: tuple[str, ...],
    resources: Resources,
    *,
    producer: bool,
    consumer: bool,
    deny: bool,
    prefix: bool,
) -> list[AccessRule]:
    from chronik.metadata.access import ALLOW, DENY, LITERAL, PREFIXED

    if not (operation or producer or consumer):
        raise Misused("what is it about? Name an --operation, or use --producer or --consumer")
    named = resources.named
    if not named:
        raise Misused("which resource? Name a --topic, --group, --transactional-id, or --cluster")
    if prefix and resources.cluster:
        raise Misused("--prefix and --cluster exclude each other: choose one")
    if producer and not resources.topic:
        raise Misused("a producer needs a --topic")
    if consumer and not (resources.topic and resources.group):
        raise Misused("a consumer needs a --topic and a --group")
    words = {(kind, name): list(operation) for kind, name in named}
    for kind, name in named:
        if producer and kind == TOPIC:
            words[kind, name] += [WRITE, DESCRIBE, CREATE]
        if producer and kind == TRANSACTIONAL_ID:
            words[kind, name] += [WRITE, DESCRIBE]
        if consumer and kind == TOPIC:
            words[kind, name] += [READ, DESCRIBE]
        if consumer and kind == GROUP:
            words[kind, name] += [READ]
    found = [
        rule
        for (kind, name), operations in words.items()
        for rule in rules_of(
            [principal_of(each) for each in principal],
            [operation_of(word) for word in operations],
            [(kind, name)],
            pattern=PREFIXED if prefix else LITERAL,
            hosts=host,
            permission=DENY if deny else ALLOW,
        )
    ]
    return list(dict.fromkeys(found))


async def _found(
    cluster: ClusterClient,
    principal: tuple[str, ...],
    operation: tuple[str, ...],
    resources: Resources,
    *,
    matching: bool,
) -> list[AccessRule]:
    """The rules that fit all of the options that are given, and of each option one of its values."""
    from chronik.client.admin import acls
    from chronik.metadata.access import ANY, MATCH, RuleFilter

    principals, operations = {principal_of(each) for each in principal}, {operation_of(each) for each in operation}
    pattern = MATCH if matching else ANY
    filters: list[RuleFilter] = [RuleFilter(kind, name, pattern) for kind, name in resources.named] or [RuleFilter()]
    rules = await acls.describe(cluster, RuleFilter())
    return [
        rule
        for rule in rules
        if any(each.fits(rule) for each in filters)
        and (not principals or rule.principal in principals)
        and (not operations or rule.operation in operations)
    ]


async def _state(cluster: ClusterClient) -> tuple[AccessRules, Policy]:
    """All rules, and what a broker's settings say."""
    from chronik.client.admin import acls, configs
    from chronik.metadata.access import NO_ACCESS_RULES, RuleFilter
    from chronik.security.deciding import Policy

    access = NO_ACCESS_RULES
    for rule in await acls.describe(cluster, RuleFilter()):
        access = access.with_rule(rule)
    await cluster.refresh([])
    broker = configs.ConfigResource(configs.ResourceKind.BROKER, str(min(cluster.topology.brokers)))
    keys = ("super.users", "allow.everyone.if.no.acl.found")
    values = {config.name: config.value or "" for config in await configs.describe(cluster, broker, keys)}
    super_users = frozenset(filter(None, (each.strip() for each in values.get(keys[0], "").split(";"))))
    return access, Policy(super_users, values.get(keys[1], "").lower() == "true")


async def _impact(
    cluster: ClusterClient, *, added: Iterable[AccessRule] = (), removed: Iterable[AccessRule] = ()
) -> list[Row]:
    """What changes for the principals and resources that are known."""
    from chronik.security.impact import changes
    from chronik.security.words import OPERATIONS, RESOURCE_TYPES

    before, policy = await _state(cluster)
    after = before
    for rule in added:
        after = after.with_rule(rule)
    for rule in removed:
        after = after.without_rule(rule)
    return [
        {
            "principal": each.principal,
            "operation": OPERATIONS[each.operation].lower(),
            "resource": f"{RESOURCE_TYPES[each.resource.kind].lower()} {each.resource.name}",
            "host": each.host,
            "change": "denied -> allowed" if each.is_allowed else "allowed -> denied",
        }
        for each in changes(before, after, await _existing(cluster), policy)
    ]


async def _existing(cluster: ClusterClient) -> list[Resource]:
    from chronik.client.admin import groups
    from chronik.security.impact import Resource

    topics = (await cluster.refresh(None)).topics
    return [
        Resource(CLUSTER, CLUSTER_NAME),
        *(Resource(TOPIC, name) for name in topics),
        *(Resource(GROUP, group.group_id) for group in await groups.list_all(cluster)),
    ]


def _nearest(principal: tuple[str, ...], resources: Resources, known: list[AccessRule]) -> str:
    for word in principal:
        if hint := did_you_mean(principal_of(word), {rule.principal for rule in known} - {principal_of(word)}):
            return hint
    for _, name in resources.named:
        if hint := did_you_mean(name, {rule.name for rule in known} - {name}):
            return hint
    return ""
