"""Access rules have the same meaning as in Kafka's StandardAuthorizer, over random rules and questions in one JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from chronik.metadata.access import NO_ACCESS_RULES, AccessRule, RuleFilter
from chronik.runtime.pieces import at_once
from chronik.security.deciding import Policy, decide, deciding_any
from tests.oracle.jars import kafka_jars

pytestmark = pytest.mark.java

RULE_SETS, QUESTIONS = 500, 20
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:CN=x,O=y")
CALLERS = tuple(each for each in PRINCIPALS if each != "User:*")  # a user of this name makes Kafka fail
HOSTS = ("127.0.0.1", "10.0.0.2", "*", "::1")
NAMES = ("*", "a", "ab", "abc", "b", "ba", "hardcode", "hard", "a*", "é", "kafka-cluster")
KINDS = (2, 3, 4, 5, 7)


def drawn(random: Random) -> AccessRule:
    return AccessRule(
        random.choice(KINDS[:3]),
        random.choice(NAMES),
        random.choice((3, 4)),
        random.choice(PRINCIPALS),
        random.choice(HOSTS),
        random.choice((2, 3, 4, 6, 7, 8, 8, 10, 11, random.randint(2, 15))),
        random.choice((2, 3, 3)),
    )


def drawn_filter(random: Random) -> RuleFilter:
    return RuleFilter(
        random.choice((1, *KINDS)),
        random.choice((None, *NAMES)),
        random.choice((1, 2, 2, 3, 4)),
        random.choice((None, None, *PRINCIPALS)),
        random.choice((None, None, *HOSTS)),
        random.choice((1, 1, 1, 3, 8)),
        random.choice((1, 1, 2, 3)),
    )


def shown(rule: AccessRule) -> str:
    return " ".join(map(str, rule))


def line(*fields: object) -> str:
    return "\t".join("-" if field is None else str(field) for field in fields)


def test_kafka_decides_and_finds_the_same() -> None:
    random = Random(20_261_118)
    asked: list[str] = []
    ours: list[str] = []
    for _ in range(RULE_SETS):
        super_user = random.choice(("", "User:alice", "User:bob;Group:alice"))
        is_open = random.random() < 0.3
        policy = Policy(
            frozenset(filter(None, super_user.split(";"))) if random.random() < 0.3 else frozenset(), is_open
        )
        asked.append(line("new", ";".join(sorted(policy.super_users)), str(is_open).lower()))
        access = NO_ACCESS_RULES
        for rule in sorted({drawn(random) for _ in range(random.choice((0, 1, 2, 3, 6, 12)))}):
            access = access.with_rule(rule)
            asked.append(line("rule", *rule))
        for _ in range(QUESTIONS):
            who = random.choice(CALLERS), random.choice(("127.0.0.1", "10.0.0.2"))
            operation, kind, name = (
                random.choice((3, 4, 8, 10, random.randint(3, 15))),
                random.choice(KINDS),
                random.choice(NAMES),
            )
            asked.append(line("ask", *who, operation, kind, name))
            ours.append(str(int(decide(access, *who, operation, kind, name, policy).allowed)))
            asked.append(line("any", *who, operation, kind))
            ours.append(str(int(at_once(deciding_any(access, *who, operation, kind, policy)).allowed)))
        wanted = drawn_filter(random)
        asked.append(line("find", *wanted))
        ours.append(";".join(sorted(shown(rule) for rule in access.found(wanted))))
    program = Path(__file__).with_name("java") / "AuthorizerOracle.java"
    command = ["java", "-Dlog4j2.level=OFF", "-cp", f"{kafka_jars('4.3.1')}/*", str(program)]
    answered = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=False)
    assert answered.returncode == 0, answered.stderr[-2000:]
    kafkas = answered.stdout.split("\n")[: len(ours)]
    questions = [each for each in asked if not each.startswith(("new", "rule"))]
    different = [row for row in zip(questions, kafkas, ours, strict=True) if row[1] != row[2]]
    assert different == []
    assert 0.1 < kafkas.count("1") / len(kafkas) < 0.9
