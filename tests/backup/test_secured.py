"""A backup of a cluster with logins and access rules: the rules come back, and no password is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.cli.conftest import Done, Run, run_command

__all__ = ["run_command"]

PASSWORD = "swordfish-and-more"


@pytest.mark.slow
def test_rules_are_restored_and_no_password_is_written(run_command: Run, tmp_path: Path) -> None:
    """A backup is copied to places that no broker guards."""
    where = tmp_path / "backup"

    def as_admin(cluster: Cluster, *words: str) -> Done:
        login = ("--bootstrap", cluster.bootstrap, "--command-config", str(cluster.properties_file("admin")))
        done = run_command(*words, *login)
        assert done.exit_code == 0, done.err
        return done

    with Cluster(secure=True) as source:
        source.add_user("carol", PASSWORD)
        source.allow("carol", "read", "describe", topic="orders")
        as_admin(source, "topic", "create", "orders", "--partitions", "1")
        taken = as_admin(source, "backup", str(where), "--format", "json").json
        rules = as_admin(source, "acl", "list", "--format", "json").json
    assert taken["acls"] == len(rules) > 0
    assert any("carol" in each for each in taken["left_out"]), "its user has to be added again"
    assert not [path for path in where.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    with Cluster(secure=True) as target:
        as_admin(target, "restore", str(where))
        found = as_admin(target, "acl", "list", "--format", "json").json
    assert [rule for rule in rules if rule not in found] == []
    assert any(rule["principal"] == "User:carol" for rule in found)
