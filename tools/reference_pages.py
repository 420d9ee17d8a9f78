"""Writes the generated pages of docs/reference from the code. `make docs` runs it; a test fails if a page is stale.

python tools/reference_pages.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import log_lines
from chronik.broker import compatibility, limits
from chronik.broker.settings import document as configuration
from chronik.cli.main import COMMANDS, app
from chronik.pipeline import options as source_options
from chronik.pipeline import sink_options
from chronik.pipeline.conditions import CONDITIONS
from chronik.wire.error_codes import ErrorCode
from error_cures import CAUSES, PIPELINE_KINDS
from spark_option_words import SINK, SOURCE

FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE: Final = "*Made from {} by `make docs`; do not edit.*\n"
KIB, MIB = 1 << 10, 1 << 20


def command_line() -> str:
    """docs/reference/cli.md: the help of every command."""
    for noun in COMMANDS:
        app[noun]  # imports it
    text = app.generate_docs(output_format="markdown", recursive=True)
    text = re.sub(r"## Table of Contents\n.*?(?=\*\*Commands\*\*)", "", text, flags=re.DOTALL)
    # Cyclopts forgets here that the whole command line has no negative flags, and that texts tell their defaults.
    text = re.sub(r", --(?:no|empty)-[\w-]+(?=[ `])", "", text)
    text = re.sub(r" ?\*\[default: [^\n]*?\]\*", "", text)
    text = text.replace("```console\n", "```text\n").replace(
        "# chronik\n", f"# Commands\n\n{_made('the help texts')}\n", 1
    )
    return "".join(_with_examples(text))


def _with_examples(text: str) -> Iterator[str]:
    """Examples are indented by two blanks in help, which is a paragraph in Markdown."""
    in_example = False
    for line in text.splitlines():
        is_example = bool(re.match(r"  \S", line))
        if is_example and not in_example:
            yield "\n"
        if in_example and not is_example and line:
            yield "\n"
        in_example = is_example
        yield f"  {line}\n" if is_example else f"{line.rstrip()}\n"


def error_codes() -> str:
    """docs/reference/error-codes.md: Kafka's codes, and the conditions of pipelines."""
    rows = []
    for code in ErrorCode:
        cause = CAUSES.get(code.name, "")
        retry = "yes" if code.retriable else ""
        rows.append(f"| {int(code)} | `{code.name}` | {code.message} | {retry} | {cause} |\n")
    known = "\n".join(
        f"| `{name}` | {PIPELINE_KINDS[name]} | {_without_fields(sentence)} |" for name, sentence in CONDITIONS.items()
    )
    return f"""\
# Error codes

{_made("`chronik.wire.error_codes`, `chronik.pipeline.conditions` and `tools/error_cures.py`")}
## Codes of Kafka

Brokers answer with these codes; clients and commands show their names. *Retry* marks errors that may disappear by
themselves: clients repeat the request. Codes without a cure are explained by their meaning alone.

| code | name | meaning | retry | cause and cure |
|---|---|---|---|---|
{"".join(rows)}
## Conditions of pipelines

`chronik pipeline` names what is wrong with a pipeline. With `--format json`, the field `condition` holds the name.

| condition | about | meaning |
|---|---|---|
{known}
"""


def _without_fields(sentence: str) -> str:
    return re.sub(r"\{(\w+)(?:![rs])?\}", lambda field: f"*{field[1]}*", sentence)


def fixed_limits() -> str:
    """docs/reference/limits.md: bounds that no setting changes."""
    rows = [
        ("requests in progress on a connection", str(limits.IN_FLIGHT_REQUESTS_MAX), "the node stops reading from it"),
        ("bytes in progress on a connection", _size(limits.IN_FLIGHT_BYTES_HIGH), "the node stops reading from it"),
        ("connections", f"{limits.CONNECTIONS_MAX:,}", "a further one is closed, with a log line"),
        ("time for a request to arrive completely", f"{limits.FRAME_SECONDS_MAX} s", "the connection is closed"),
        (
            "time in which a client may leave responses unread while memory is short",
            f"{limits.UNREAD_SECONDS_MAX} s",
            "the connection is closed",
        ),
        ("time that a fetch may wait", f"{limits.FETCH_WAIT_MS_MAX // 60_000} min", "the node answers earlier"),
        (
            "objects that a large request is decoded into",
            _size(limits.REQUEST_OBJECT_BYTES_MAX),
            "the connection is closed",
        ),
        (
            "share of the memory budget for one address",
            f"1/{limits.HOST_SHARE}",
            "its large requests wait for memory",
        ),
        (
            "share of the memory budget for fetch sessions, and for group members",
            f"1/{limits.KEPT_SHARE} each",
            "older fetch sessions end; further members are refused",
        ),
    ]
    table = "\n".join(f"| {what} | {bound} | {then} |" for what, bound, then in rows)
    return f"""\
# Limits

{_made("`chronik.broker.limits`")}
Everything that clients can make large has a bound. At a bound the node slows the client down or answers with an error;
it never runs out of memory. These bounds are fixed:

| what | limit | at the limit |
|---|---|---|
{table}

These have a key in [configuration](configuration.md):

| what | key |
|---|---|
| memory for clients together | `chronik.memory.budget.bytes` |
| size of a request | `socket.request.max.bytes` |
| size of a record batch | `message.max.bytes`, `max.message.bytes` |
| members of a group | `group.max.size` |
| length of a transaction | `transaction.max.timeout.ms` |
| connections from one address | `max.connections.per.ip` |
| metadata with a committed offset | `offset.metadata.max.bytes` |
"""


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


def spark_options() -> str:
    """docs/reference/spark-options.md: every option of `format("chronik")`."""
    return f"""\
# Spark options

{_made("`chronik.pipeline.options` and `tools/spark_option_words.py`")}
`format("chronik")` takes the options of Spark's own Kafka source and sink. Upper and lower case count the same. An
unknown option is an error that names the nearest known one. [Pipelines](pipeline.md) describes
[secured clusters](pipeline.md#secured-clusters) and [writing to topics](pipeline.md#writing-to-topics).

## Reading

`spark.read` and `spark.readStream`:

{_options_table((*source_options.OPTIONS, *source_options.KAFKA), SOURCE)}
Accepted without effect: {_listed(source_options.KAFKA_WITHOUT_EFFECT)}.

Refused, because they would change the result: {_listed(source_options.REFUSED)}.

## Writing

`df.write` and `df.writeStream`:

{_options_table((*sink_options.OPTIONS, *sink_options.KAFKA), SINK)}
Accepted without effect: {_listed(sink_options.KAFKA_WITHOUT_EFFECT)}.

Refused: {_listed(sink_options.REFUSED)}.
"""


def _options_table(names: tuple[str, ...], words: dict[str, str]) -> str:
    rows = [f"| `{name}` | {words[name]} |\n" for name in names if not name.startswith(("kafka.ssl.", "kafka.sasl."))]
    secured = ", ".join(f"`{name}`" for name in names if name.startswith(("kafka.ssl.", "kafka.sasl.")))
    return f"| option | meaning |\n|---|---|\n{''.join(rows)}\nTLS and logins: {secured}.\n"


def _listed(names: object) -> str:
    assert isinstance(names, (tuple, dict))
    return ", ".join(f"`{name}`" for name in names)


def _made(source: str) -> str:
    return MADE.format(source)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "cli.md": command_line,
    "compatibility.md": compatibility.document,
    "configuration.md": configuration.document,
    "error-codes.md": error_codes,
    "limits.md": fixed_limits,
    "log-lines.md": log_lines.document,
    "spark-options.md": spark_options,
}


def main() -> None:
    for name, written in PAGES.items():
        (FOLDER / name).write_text(written(), "utf-8")


if __name__ == "__main__":
    main()
