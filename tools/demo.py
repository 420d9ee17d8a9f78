"""Shows what works today: every API whose messages are written down, as a table with versions.

It grows with the product and never pretends: what it prints is read from the code that serves it.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import chronik
from chronik.wire import messages, notation

if TYPE_CHECKING:
    from collections.abc import Iterator


def requests() -> Iterator[type[notation.Request]]:
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, notation.Request) and value is not notation.Request:
                yield value


def main() -> None:
    console = Console()
    table = Table("key", "API", "versions", "flexible", title=f"Chronik {chronik.__version__}: APIs on the wire")
    for request in sorted(set(requests()), key=lambda each: each.key):
        name = request.__name__.removesuffix("Request")
        table.add_row(str(request.key), name, str(request.versions), str(request.flexible))
    console.print(table)
    console.print(f"{table.row_count} APIs. No broker yet: CHANGELOG.md says what exists.")


if __name__ == "__main__":
    main()
