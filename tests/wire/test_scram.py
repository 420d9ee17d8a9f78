"""SCRAM's messages and values: the example of RFC 7677 byte by byte, and invalid messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.scram import (
    KINDS,
    MESSAGE_BYTES_MAX,
    SHA_256,
    BadScramMessage,
    Keys,
    client_final_bare,
    client_first_bare,
    client_proof,
    is_proof,
    keys_of,
    read_client_final,
    read_client_first,
    read_server_final,
    read_server_first,
    salted_password,
    server_final,
    server_first,
    server_signature,
    signature_by_salted,
    with_proof,
)

CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
NONCE = CLIENT_NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_exchange_of_rfc_7677() -> None:
    """Every client computes these bytes."""
    first = read_client_first(CLIENT_FIRST)
    assert (first.user, first.authzid, first.nonce, first.extensions) == ("user", "", CLIENT_NONCE, {})
    assert b"n,," + client_first_bare("user", CLIENT_NONCE) == CLIENT_FIRST
    asked = read_server_first(SERVER_FIRST)
    assert (asked.nonce, asked.iterations, server_first(*asked)) == (NONCE, 4096, SERVER_FIRST)
    salted = salted_password(SHA_256, "pencil", asked.salt, asked.iterations)
    auth_message = b",".join((first.bare, SERVER_FIRST, client_final_bare(NONCE)))
    proof = client_proof(SHA_256, salted, auth_message)
    assert with_proof(client_final_bare(NONCE), proof) == CLIENT_FINAL
    keys = keys_of(SHA_256, salted)
    final = read_client_final(CLIENT_FINAL)
    assert (final.nonce, final.binding, final.bare, final.proof) == (NONCE, b"n,,", client_final_bare(NONCE), proof)
    assert is_proof(SHA_256, keys, auth_message, final.proof)
    assert server_final(server_signature(SHA_256, keys, auth_message)) == SERVER_FINAL
    assert read_server_final(SERVER_FINAL) == signature_by_salted(SHA_256, salted, auth_message)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_only_the_right_proof_is_one(kind: type) -> None:
    salted = salted_password(kind, "pencil", b"salt", 1)
    keys, message = keys_of(kind, salted), b"all that was said"
    proof = client_proof(kind, salted, message)
    assert is_proof(kind, keys, message, proof)
    assert not is_proof(kind, keys, message + b".", proof)
    assert not is_proof(kind, keys, message, proof[:-1])
    assert not is_proof(kind, keys, message, proof + b"\0")
    assert not is_proof(kind, keys, message, bytes([proof[0] ^ 1]) + proof[1:])
    assert not is_proof(kind, Keys(keys.server_key, keys.stored_key), message, proof)


@pytest.mark.parametrize("name", ["a,b", "a=b", "=2C", "=3D=2C", "käthe", "a b", ",", "="])
def test_names_keep_their_commas_and_equals_signs(name: str) -> None:
    assert read_client_first(b"n,," + client_first_bare(name, "abc")).user == name


def test_extensions_and_authorization_ids_are_read() -> None:
    first = read_client_first(b"n,a=us=2Cer,n=us=2Cer,r=abc,tokenauth=true,x=1")
    assert (first.user, first.authzid, first.binding) == ("us,er", "us,er", b"n,a=us=2Cer,")
    assert first.extensions == {"tokenauth": "true", "x": "1"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=a\x00c",
        b"n,,n=\xff,r=abc",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=" + b"a" * MESSAGE_BYTES_MAX,
    ],
)
def test_what_is_no_first_message_is_refused_and_not_quoted(data: bytes) -> None:
    with pytest.raises(BadScramMessage) as refused:
        read_client_first(data)
    assert "user" not in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"c=biws,r=abc", b"c=biws,r=abc,p=!", b"c=biws,r=abc,p=abc", b"r=abc,p="])
def test_what_is_no_final_message_is_refused(data: bytes) -> None:
    with pytest.raises(BadScramMessage):
        read_client_final(data)


def test_a_servers_error_is_told() -> None:
    with pytest.raises(BadScramMessage, match="invalid-proof"):
        read_server_final(b"e=invalid-proof")


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for read in (read_client_first, read_client_final, read_server_first, read_server_final):
        try:
            read(data)
        except BadScramMessage:
            continue
