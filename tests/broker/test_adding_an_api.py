"""CONTRIBUTING says that a new API takes two files, and that one of them declares its permission.

This adds one to a copy of the sources: the message, the handler with its permission, and their test. ApiVersions and
the table of permissions know it without further edits.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.house.scratch_copy import ScratchCopy

MESSAGE, HANDLER, TEST = "src/chronik/wire/messages/echo.py", "src/chronik/broker/apis/echo.py", "test_echo.py"
ADDED = {
    MESSAGE: '''"""Echo (key 990): says a word back. v0 only."""

from __future__ import annotations

from chronik.wire.notation import Request, Response, int16, string


class EchoRequest(Request, api_key=990, versions="0", flexible="0+"):
    topic: string
    word: string


class EchoResponse(Response, api_key=990, versions="0", flexible="0+"):
    error_code: int16
    word: string
''',
    HANDLER: '''"""Echo (key 990): says a word back, to callers that may read the topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import READ, TOPIC
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.echo import EchoRequest, EchoResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(EchoRequest, EchoResponse, needs=(READ.on(TOPIC),))
def echo(request: EchoRequest, context: Context) -> EchoResponse:
    if not context.allows(READ, TOPIC, request.topic):
        return EchoResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, word="")
    return EchoResponse(error_code=0, word=request.word)
''',
    TEST: """
from types import SimpleNamespace

from chronik.broker.api import served_apis
from chronik.broker.authorizer import AllowEverything
from chronik.broker.context import Context
from chronik.broker.permissions import table
from chronik.broker.session import Session
from chronik.wire.messages.echo import EchoRequest


class DenyEverything:
    restricts = True

    def allows(self, session, operation, kind, name, api, notes):
        return False


def ask(authorizer):
    connection = SimpleNamespace(session=Session("PLAINTEXT", 1000))
    context = Context(SimpleNamespace(authorizer=authorizer), connection, 0, "test")
    return served_apis()[990].handle(EchoRequest(topic="t", word="hello"), context)


def test_it_is_served_and_asks_for_its_permission():
    assert dict(table(served_apis().values()))["Echo"] == "READ TOPIC"
    assert str(served_apis()[990].versions) == "0"
    assert ask(AllowEverything()).word == "hello"
    assert ask(DenyEverything()).error_code == 29
""",
}


@pytest.mark.slow
def test_a_new_api_with_its_permission_takes_two_files_and_a_test(tmp_path: Path) -> None:
    copy = ScratchCopy(tmp_path)
    for path, text in ADDED.items():
        copy.write(path, text)
    assert copy.changed() == set(ADDED)
    copy.run(TEST, ROOT / "tests/broker/test_denied.py")  # which asks every API for its permissions
