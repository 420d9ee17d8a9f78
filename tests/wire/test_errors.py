"""The error tree: what its members say, carry, and answer."""

import copy
import pickle

import pytest

from chronik.wire import errors
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed, Unencodable, WireError

SAMPLES = [
    (errors.Malformed("batch", 17, "why"), ErrorCode.CORRUPT_MESSAGE),
    (errors.MalformedMessage("FetchRequest", 12, "topics[3].name", 40, "why"), ErrorCode.INVALID_REQUEST),
    (errors.CorruptBatch("batch", 17, "why"), ErrorCode.CORRUPT_MESSAGE),
    (errors.InvalidRecord("batch", 17, "why", ((3, "no key"),)), ErrorCode.INVALID_RECORD),
    (errors.InvalidTimestamp("batch", 17, "why"), ErrorCode.INVALID_TIMESTAMP),
    (errors.TooLarge("batch", 17, "why"), ErrorCode.MESSAGE_TOO_LARGE),
    (errors.UnsupportedCompression("batch", 17, "why"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
]


@pytest.mark.parametrize(("error", "code"), SAMPLES, ids=lambda value: type(value).__name__)
def test_a_malformed_says_what_where_and_why_and_knows_its_code(error: Malformed, code: ErrorCode):
    """An operator reads the text, the peer gets the code."""
    assert error.kafka_error is code
    assert str(error).endswith(f", byte {error.offset}: why")
    assert str(error).startswith(error.what)


@pytest.mark.parametrize(("error", "code"), SAMPLES, ids=lambda value: type(value).__name__)
def test_an_error_survives_a_copy(error: Malformed, code: ErrorCode):
    """Test runners and process pools send errors from one process to another."""
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error)
        assert vars(again) == vars(error)


def test_a_malformed_message_names_message_version_and_field():
    """A bug report needs these."""
    error = errors.MalformedMessage("FetchRequest", 12, "topics[3].name", 40, "a length of -7")
    assert str(error) == "FetchRequest v12, field topics[3].name, byte 40: a length of -7"
    assert (error.message, error.version, error.field) == ("FetchRequest", 12, "topics[3].name")


def test_our_own_misuse_is_never_taken_for_a_peers():
    """A handler that answers Malformed must not answer for a bug of ours."""
    assert issubclass(Unencodable, WireError)
    assert not issubclass(Unencodable, Malformed)
