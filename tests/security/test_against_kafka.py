"""Subjects and principals as Java and Kafka have them: X500Principal.getName and SslPrincipalMapper are asked."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from chronik.runtime.tls_names import subject_of
from chronik.security.principal_mapping import BadRules, NoRuleFits, PrincipalMapping
from chronik.testing.certificates import Authority
from tests.oracle.jars import kafka_jars

pytestmark = pytest.mark.java

VALUES = ("alice", "a,b", "a+b=c", " lead", "trail ", " both ", "#hash", "mid#dle", 'quo"te', "back\\slash", "<x>;y")
MORE = ("Jürgen", "日本", "a  b", "x" * 64, "tab\there")
ATTRIBUTES = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.USER_ID,
    NameOID.SURNAME,
    NameOID.TITLE,
    NameOID.SERIAL_NUMBER,
)
SUBJECTS = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=kafka-1.example.com",
    "CN=a\\,b,O=x",
    "OU=x,CN=y",
    "",
    "CN=\u212aafka",
)
RULES = (
    "DEFAULT",
    "",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^CN=(.*?),.*$/$1/U, DEFAULT",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT",
    "RULE:^CN=([^.]*)\\..*$/$1/,RULE:.*/fallback/",
    "RULE:CN=Duke/admin/",
    "RULE:.*/a\\/b/",
    "RULE:^CN=(.*)$/User-$1-$1/",
    "RULE:^CN=(\\w+)$/$1/L",
    "RULE:(?i)^cn=(k[a-z]+)$/$1/",
)


def java_says(asked: list[str]) -> list[str]:
    program = Path(__file__).with_name("SecuritySays.java")
    command = ["java", "-cp", f"{kafka_jars('4.3.1')}/*", str(program)]
    lines = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True, check=True).stdout
    return [base64.b64decode(line).decode() for line in lines.splitlines()]


def certificates() -> list[x509.Certificate]:
    authority = Authority()
    names = [
        x509.Name([x509.NameAttribute(attribute, value)])
        for attribute in ATTRIBUTES
        for value in (*VALUES[:3], "plain")
    ]
    names += [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, value)]) for value in (*VALUES, *MORE)]
    names += [
        x509.Name(
            [
                x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
                x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
                x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@example.com"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Org"),
                x509.NameAttribute(NameOID.COMMON_NAME, "node"),
            ]
        ),
        x509.Name(
            [
                x509.RelativeDistinguishedName(
                    [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
                )
            ]
        ),
    ]
    return [authority.issue(name).certificate for name in names]


def test_a_subject_is_written_as_java_writes_it() -> None:
    """Access rules name principals letter by letter, and operators bring them along from Kafka."""
    made = certificates()
    theirs = java_says([f"subject\t{each.public_bytes(Encoding.DER).hex()}" for each in made])
    assert [f"={subject_of(each)}" for each in made] == theirs


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def ours(rules: str, subject: str) -> str:
    try:
        return f"={PrincipalMapping(rules).name(subject)}"
    except NoRuleFits:
        return "!NoMatchingRule"
    except BadRules:
        return "!IllegalArgumentException"


def test_rules_make_the_principals_that_kafka_makes() -> None:
    questions = [(rules, subject) for rules in RULES for subject in SUBJECTS]
    theirs = java_says([f"rules\t{encoded(rules)}\t{encoded(subject)}" for rules, subject in questions])
    differing = {
        question: (answer, ours(*question))
        for question, answer in zip(questions, theirs, strict=True)
        if answer != ours(*question)
    }
    assert differing == {}
