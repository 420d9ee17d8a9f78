"""Brokers for the commands, and a way to run a command as a user does."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from chronik.cli.main import main
from tests.oracle.either_broker import bootstrap, our_broker, unique
from tests.oracle.kafka_server import kafka

__all__ = ["Done", "bootstrap", "chronik", "kafka", "our_broker", "run_command", "unique"]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Done]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Any) -> Run:
    """Runs `chronik` with these words in this process, with `stdin` if given, and with contexts of the test's own."""

    def run(*words: str, stdin: bytes = b"") -> Done:
        given = tmp_path / "stdin"
        given.write_bytes(stdin)
        monkeypatch.setattr(sys, "argv", ["chronik", *words])
        with given.open("rb") as file:
            monkeypatch.setattr(sys, "stdin", file)
            capfdbinary.readouterr()
            with patch.dict(os.environ, XDG_CONFIG_HOME=str(tmp_path / "config")), pytest.raises(SystemExit) as ended:
                main()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        code = ended.value.code
        return Done(code if isinstance(code, int) else 0, out.decode(), err.decode())

    return run


@pytest.fixture
def chronik(run_command: Run, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run_command` against a broker: ours, and Kafka's."""
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", bootstrap)
    return run_command
