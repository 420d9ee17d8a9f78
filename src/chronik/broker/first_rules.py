"""The first access rules of a cluster with an authorizer: `chronik init --secure` writes them to a file, and the first
start of a node reads it.

A starting node sends the rules to the controller and removes the file. The controller accepts them only while the
cluster has no rules: nodes that were prepared together send the same rules, and a node that joins later does not
restore removed ones. A node without an authorizer does not start with such a file, because the rules would have no
effect.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.broker.errors import CannotStart
from chronik.metadata.access import AccessRule
from chronik.metadata.commands.create_acls import AclRule, CreateAcls

if TYPE_CHECKING:
    from chronik.metadata.store import MetadataStore
    from chronik.runtime.interfaces import Disk

log = logging.getLogger("chronik.broker.authorizer")

FILE = "first-rules.json"


def encode_first_rules(rules: Sequence[AccessRule]) -> bytes:
    return json.dumps([rule._asdict() for rule in rules], indent=1).encode() + b"\n"


def write_first_rules(disk: Disk, directory: str, rules: Sequence[AccessRule]) -> None:
    disk.make_directory(directory)
    disk.replace_file(f"{directory}/{FILE}", encode_first_rules(rules))


def read_first_rules(disk: Disk, directory: str) -> list[AccessRule]:
    """An empty list if there is no file. Raises CannotStart if the file cannot be read."""
    path = f"{directory}/{FILE}"
    if not disk.exists(path):
        return []
    try:
        return [_rule(AccessRule(**row)) for row in json.loads(disk.read_file(path))]
    except (ValueError, TypeError) as fault:
        reason = f"{path} is not what `chronik init` writes: remove it, and add rules with `chronik acl add`"
        raise CannotStart(reason) from fault


def _rule(rule: AccessRule) -> AccessRule:
    """Raises TypeError if a value does not have its field's type."""
    for name, value in rule._asdict().items():
        wanted = str if name in ("name", "principal", "host") else int
        if type(value) is not wanted:
            raise TypeError(f"{name} is not {wanted.__name__}")
    return rule


async def bring_first_rules(disk: Disk, directory: str, store: MetadataStore, *, are_obeyed: bool) -> None:
    """Call this once the metadata is ready. Raises CannotStart if the rules would have no effect, or if the controller
    refuses one."""
    rules = read_first_rules(disk, directory)
    path = f"{directory}/{FILE}"
    if not rules:
        return
    if not are_obeyed:
        raise CannotStart(
            f"{path} holds access rules that nothing obeys: set authorizer.class.name, or remove the file"
        )
    asked = [
        AclRule(
            resource_type=rule.kind,
            resource_name=rule.name,
            pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for rule in rules
    ]
    for result in (await store.submit(CreateAcls(rules=asked, if_none_exist=True))).results:
        if result.error_code:
            raise CannotStart(
                f"a rule of {path} is refused: {result.error_message}; remove the file, and use `chronik acl add`"
            )
    disk.remove(path)
    disk.sync_directory(directory)
    log.info("brought %d first access rules", len(rules))
