"""The text of sasl.jaas.config, as Kafka's files write it."""

from __future__ import annotations

import pytest

from chronik.catalogue.jaas import parse_jaas
from chronik.catalogue.values import InvalidValue

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{MODULE} required;", {}),
        (f'{MODULE} required username="a" password="b";', {"username": "a", "password": "b"}),
        (f'{MODULE}  Required\n\tusername="a"\n password = "b" ; ', {"username": "a", "password": "b"}),
        (f'{MODULE} required user_al="x\\"y\\\\z";', {"user_al": 'x"y\\z'}),
        (f'{MODULE} required user_al="semi;colon = 1";', {"user_al": "semi;colon = 1"}),
        (f"{MODULE} required tokenauth=true;", {"tokenauth": "true"}),
        (f'{MODULE} required "user_a b"="c";', {"user_a b": "c"}),
        (f'{MODULE} required password="";', {"password": ""}),
    ],
)
def test_one_module_with_its_options(text: str, options: dict[str, str]) -> None:
    jaas = parse_jaas(text)
    assert (jaas.module, jaas.options) == (MODULE, options)


def test_users_and_the_own_login_are_apart() -> None:
    jaas = parse_jaas(f'{MODULE} required username="me" password="pw" user_al="x" user_b_c="y";')
    assert jaas.users == {"al": "x", "b_c": "y"}
    assert jaas.own == ("me", "pw")
    assert parse_jaas(f'{MODULE} required username="me";').own is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        MODULE,
        f"{MODULE} required",
        f"{MODULE} sometimes;",
        f'{MODULE} required username="swordfish"',
        f'{MODULE} required username="swordfish;',
        f"{MODULE} required username 'swordfish';",
        f'{MODULE} required username="swordfish" username="swordfish";',
        f'{MODULE} required ="swordfish";',
        f'{MODULE} required a= ="swordfish";',
        f'{MODULE} required; {MODULE} required password="swordfish";',
        "; required;",
    ],
)
def test_anything_else_is_refused_without_showing_a_value(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        parse_jaas(text)
    assert "swordfish" not in str(refused.value)


def test_no_value_is_in_a_repr() -> None:
    assert "swordfish" not in repr(parse_jaas(f'{MODULE} required password="swordfish";'))
