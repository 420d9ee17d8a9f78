"""Shows what works today: Kafka's APIs on the wire, one answer as bytes and back, and what broken bytes are told.

It grows with the product and never pretends: everything it prints comes out of the code that the broker uses.
"""

from __future__ import annotations

import importlib
import pkgutil

from rich.console import Console
from rich.table import Table

import chronik
from chronik.wire import messages
from chronik.wire.compiler import decode, encode
from chronik.wire.errors import MalformedMessage
from chronik.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from chronik.wire.notation import Request

BYTES_PER_LINE = 23  # two lines for the response below


def known_requests() -> list[type[Request]]:
    found = set()
    for module in pkgutil.iter_modules(messages.__path__, f"{messages.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, Request) and value is not Request:
                found.add(value)
    return sorted(found, key=lambda each: each.api_key)


def show_apis(console: Console) -> None:
    table = Table("key", "API", "versions", "flexible", title=f"Chronik {chronik.__version__}: APIs on the wire")
    for request in known_requests():
        name = request.__name__.removesuffix("Request")
        table.add_row(str(request.api_key), name, str(request.versions), str(request.flexible))
    console.print(table)
    console.print(f"{table.row_count} APIs, every version of each.\n")


def show_bytes(console: Console) -> None:
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=42)
    response = ProduceResponse(responses=[TopicProduceResponse(name="test-topic", partition_responses=[partition])])
    data = encode(response, 2)
    console.print(f"ProduceResponse v2 is {len(data)} bytes:")
    for start in range(0, len(data), BYTES_PER_LINE):
        console.print("  " + data[start : start + BYTES_PER_LINE].hex(" "), highlight=False)
    console.print(f"read again it is {'the same message' if decode(ProduceResponse, 2, data) == response else 'WRONG'}")
    try:
        decode(ProduceResponse, 2, data[:-1])
    except MalformedMessage as why:
        console.print(f"without its last byte: {why}\n")


def main() -> None:
    console = Console()
    show_apis(console)
    show_bytes(console)
    console.print("CHANGELOG.md says what else exists.")


if __name__ == "__main__":
    main()
