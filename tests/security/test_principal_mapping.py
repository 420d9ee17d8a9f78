"""Rules that make principals of subjects, in tables; `tests/security/test_against_kafka.py` asks Kafka's own class."""

from __future__ import annotations

import pytest

from chronik.security.principal_mapping import BadRules, NoRuleFits, PrincipalMapping

SUBJECT = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", SUBJECT),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", "DUKE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2.$3/", "Duke@ServiceUsers.Org"),
        ("RULE:^CN=(.*?),OU=Nobody.*$/$1/, DEFAULT", SUBJECT),
        ("RULE:^CN=x$/y/,RULE:^.*C=(\\w\\w)$/$1/L", "us"),
        ("RULE:^CN=(.*?),.*$/a\\/b-$1/", "a/b-Duke"),
    ],
)
def test_the_first_rule_that_fits_names_the_principal(rules: str, expected: str) -> None:
    assert PrincipalMapping(rules).name(SUBJECT) == expected


def test_a_pattern_must_match_the_whole_subject() -> None:
    """A pattern for CN=admin must not let CN=admin,OU=Guests in."""
    mapping = PrincipalMapping("RULE:CN=Duke/admin/")
    with pytest.raises(NoRuleFits, match="CN=Duke,OU=ServiceUsers"):
        mapping.name(SUBJECT)
    assert mapping.name("CN=Duke") == "admin"


@pytest.mark.parametrize(
    "rules", ["nonsense", "RULE:(/x/", "RULE:^CN=.*$/$1/", "DEFAULT,junk", "RULE:a/b", "default", "RULE:a/b/\nDEFAULT"]
)
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(BadRules):
        PrincipalMapping(rules)


def test_no_subject_takes_long_to_match() -> None:
    """The rule is from Kafka's documentation. A backtracking matcher needs a minute for a twentieth of this subject, in
    which the node serves no client."""
    mapping = PrincipalMapping("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,DEFAULT")
    subject = "CN=" + ",OU=,O=,L=,ST=" * 2_000
    assert mapping.name(subject) == subject


@pytest.mark.parametrize("rules", ["RULE:^CN=(\\w+)$/$1/L", "RULE:(?i)^CN=kafka$/kafka/", "RULE:(?si)CN=KAFKA/kafka/"])
@pytest.mark.parametrize("subject", ["CN=\u212aafka", "CN=kaf\u212aa"])
def test_a_letter_that_looks_like_one_of_ascii_makes_nobody_somebody_else(rules: str, subject: str) -> None:
    """In Java \\w is ASCII, and so is the comparison that ignores case; the Kelvin sign in lower case is a k."""
    assert PrincipalMapping(rules).name("CN=kafka") == "kafka"
    with pytest.raises(NoRuleFits):
        PrincipalMapping(rules).name(subject)
