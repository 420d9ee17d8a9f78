"""SCRAM credentials: errors, stored data, and that no secret is printed. Errors are those of Kafka 4.3.1."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramDeletion, ScramUpsertion
from chronik.metadata.image import ScramCredential, ScramKey
from chronik.metadata.records import ScramCredentialRecord, ScramSecretRecord
from chronik.metadata.snapshot import decode_snapshot, encode_snapshot, state_hash
from chronik.runtime.invariants import InvariantBroken
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import Cluster, cluster

SECRET = b"x" * 32


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"salt") -> ScramUpsertion:
    return ScramUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, stored_key=b"stored", server_key=b"server"
    )


def ask(on: Cluster, *changes: ScramDeletion | ScramUpsertion, if_none_exist: bool = False) -> dict[str, int]:
    reply = on.ask(
        AlterScramCredentials(
            deletions=[each for each in changes if isinstance(each, ScramDeletion)],
            upsertions=[each for each in changes if isinstance(each, ScramUpsertion)],
            secret=SECRET,
            if_none_exist=if_none_exist,
        )
    )
    return {user.name: user.error_code for user in reply.users}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([upsertion("u", iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("u", iterations=16_385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("u", iterations=16_384)], ErrorCode.NONE),
        ([upsertion("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([ScramDeletion(name="", mechanism=1)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsertion("u", mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("u", mechanism=3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsertion("u"), upsertion("u")], ErrorCode.DUPLICATE_RESOURCE),
        ([ScramDeletion(name="u", mechanism=1), upsertion("u")], ErrorCode.RESOURCE_NOT_FOUND),
        ([ScramDeletion(name="u", mechanism=2)], ErrorCode.RESOURCE_NOT_FOUND),
        ([upsertion("u"), upsertion("u", mechanism=2)], ErrorCode.NONE),
    ],
)
def test_a_change_gets_kafkas_error_or_none(changes: list[ScramDeletion | ScramUpsertion], error: ErrorCode) -> None:
    on = cluster(1)
    assert list(ask(on, *changes).values()) == [error]
    assert bool(on.image.scram) is (error == 0)


def test_users_are_decided_apart() -> None:
    """One bad entry must not keep the others of a large import out."""
    on = cluster(1)
    assert ask(on, upsertion("good"), upsertion("bad", iterations=1)) == {"good": 0, "bad": 93}
    assert list(on.image.scram) == [ScramKey("good", 1)]


def test_a_credential_is_replaced_and_removed() -> None:
    on = cluster(1)
    ask(on, upsertion("u"), upsertion("u", 2))
    ask(on, upsertion("u", salt=b"new", iterations=8192))
    assert on.image.scram[ScramKey("u", 1)] == ScramCredential(b"new", b"stored", b"server", 8192)
    assert ask(on, ScramDeletion(name="u", mechanism=1)) == {"u": 0}
    assert list(on.image.scram) == [ScramKey("u", 2)]


def test_the_first_users_come_once() -> None:
    """Three nodes that were formatted alike bring the same users; a node that comes later brings none back."""
    on = cluster(1)
    assert ask(on, upsertion("admin"), if_none_exist=True) == {"admin": 0}
    assert ask(on, upsertion("admin", salt=b"other"), upsertion("more"), if_none_exist=True) == {"admin": 0, "more": 0}
    assert {key: credential.salt for key, credential in on.image.scram.items()} == {ScramKey("admin", 1): b"salt"}


def test_the_secret_for_made_up_salts_is_written_once() -> None:
    """Salts of users that do not exist would change with it, and tell them from the others."""
    on = cluster(1)
    ask(on, upsertion("a", iterations=1))
    assert on.image.scram_secret == b""
    ask(on, upsertion("a"))
    assert on.image.scram_secret == SECRET
    on.ask(AlterScramCredentials(deletions=[], upsertions=[upsertion("b")], secret=b"y" * 32))
    assert on.image.scram_secret == SECRET
    with pytest.raises(InvariantBroken, match="29"):
        on.apply([ScramSecretRecord(secret=b"z")])


def test_an_image_without_credentials_is_the_bytes_that_it_always_was() -> None:
    """A snapshot of a release without credentials loads, and nodes of both releases agree on its hash."""
    on = cluster(1)
    data = encode_snapshot(on.image)
    assert decode_snapshot(data).scram_secret == b""
    before = state_hash(on.image)
    ask(on, upsertion("u"))
    assert state_hash(decode_snapshot(encode_snapshot(on.image))) == state_hash(on.image) != before


def test_no_secret_is_printed() -> None:
    """Records and commands end up in log lines and failed checks."""
    on = cluster(1)
    ask(on, upsertion("u"))
    record = ScramCredentialRecord(
        user="u", mechanism=1, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    )
    command = AlterScramCredentials(deletions=[], upsertions=[upsertion("u")], secret=b"stored")
    printed = repr((record, command, on.image.scram, ScramSecretRecord(secret=b"stored")))
    assert not any(word in printed for word in ("stored", "server", "salt"))
