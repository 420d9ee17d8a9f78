"""A replacement of a function that only affects the test's own thread.

Nodes of `chronik.testing` run on threads of the test's process. A test that replaces a function of the standard library
would replace it for them too: they would find a full disk that does not exist, or their calls would be counted.
"""

from __future__ import annotations

import pkgutil
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest


def replace_here(monkeypatch: pytest.MonkeyPatch, name: str, replacement: Callable[..., Any]) -> None:
    """Let calls of `name` ("os.write") by this thread go to `replacement`; other threads keep the real one."""
    real, here = pkgutil.resolve_name(name), threading.get_ident()

    @wraps(real)
    def told_apart(*args: Any, **options: Any) -> Any:
        return (replacement if threading.get_ident() == here else real)(*args, **options)

    monkeypatch.setattr(name, told_apart)
