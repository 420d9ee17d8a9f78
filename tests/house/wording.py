"""Phrases that plain technical English does without, each with a better one, and the texts that they are looked for in:
what users read, and the docstrings and comments of src.

Pure: text in, complaints out. `python -m tests.house.wording` prints all complaints with their places.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.house.repository import ROOT, SOURCE, source_modules

# Patterns match in any case and across line ends. Each says what to write instead.
PHRASES: dict[str, str] = {
    r"so many": "N, or `this many`",
    r"votes no more": "no longer votes, or `remove its vote`",
    r"(?:is|are|do|does|can|will|would|may|was|were|has|have) no more(?! than)": "no longer",
    r"(?:is|are|was|were|be|been) left out": "omitted, or `default: X`",
    r"which must never be": "say what is wrong, and `this is a bug`",
    r"who(?:ever)? (?:writes?|reads?|asks?|wants?|needs?|looks?|says?|follows?|has to|catches up)": "name the reader",
    r"those (?:who|that) (?:do|does|are|have|ask|read|write|come|wait|want|need)": "name them: consumers that",
    r"(?:is|are|was|were) to (?:have|be)\b": "must, or a noun",
    r"(?:that|what|which) (?:is|are) no (?:[a-z]+)": "is not a ...",
    r"line \d+ is no ": "is not a ...",
    r"makes? no sense": "is invalid",
    r"\bin vain\b": "without success",
    r"\banew\b": "again",
    r"of one's own": "separate",
    r"call(?:ed|s)? off": "cancel",
    r"how (?:the )?nodes are\b": "node health",
    r"\bcounts? for nothing\b": "is ignored",
    r"\bis well\b|\bare well\b": "is healthy",
    r"\bas it stands\b": "unchanged",
    r"takes? back\b": "remove",
    r"\bhears? (?:of|from) nobody\b": "gets no response",
    r"\bnothing moved on\b": "without progress",
    r"which there are\b": "`list`, or `existing`",
    r"how far (?:each|that|it|they|a node) (?:is|are)\b": "progress",
    r"somebody (?:looks on|who)": "an operator, or a program that",
    r"\btells? of\b": "report",
    r"held against one another": "compared",
    r"letting them go": "removing",
    r"when there cannot be one": "if that fails",
    r"what (?:has|have) to\b": "what must",
    r"\bwhose an? open\b": "name the owner",
    r"is no error\b": "is not an error",
    r"is not what it was\b": "has changed",
    r"rows? stands?\b|one stands\b": "is kept",
    r"with which\b": "that, or by which",
    r"got out of\b": "read from",
}
# For docstrings and comments of src. `so many partitions that ...` and `no more than` are good English, and pass.
REMARKS: dict[str, str] = {
    r"\bwhoever\b": "name it: the caller, a client, a node",
    r"(?:\bwhom\b|\bthose whom?\b)": "name them: members, waiters, brokers",
    r"\banew\b": "again",
    r"\bfor ever\b": "forever, unlimited, or `until cancelled`",
    r"\bso many\b(?! [^.:;,]*\bthat\b)": "N, or `this many`",
    r"\b(?:is|are|do|does|counts?|sends?|leads?|votes?) no more\b(?! than| of)": "no longer",
    r"\bis to (?:be|have)\b": "must, or a noun",
    r"\bin vain\b": "without success",
    r"\bmend(?:s|ed)?\b": "repair",
}
DOCUMENTS = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md")
SPOKEN = {
    "complain",
    "print",
    "debug",
    "info",
    "warning",
    "error",
    "exception",
    "critical",
    "raise_for",
    "say",
    "progress",
}


def _compiled(phrases: dict[str, str]) -> dict[re.Pattern[str], str]:
    return {re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE): better for pattern, better in phrases.items()}


_phrases, _remarks = _compiled(PHRASES), _compiled(REMARKS)


def complaints(text: str) -> Iterator[tuple[int, str]]:
    """Line in the text, from 1, and what is wrong with it."""
    yield from _found(text, _phrases)


def remark_complaints(text: str) -> Iterator[tuple[int, str]]:
    """The same for a docstring or a comment."""
    yield from _found(text, _remarks)


def _found(text: str, patterns: dict[re.Pattern[str], str]) -> Iterator[tuple[int, str]]:
    for pattern, better in patterns.items():
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()) + 1, f"{' '.join(found[0].split())!r}: write {better}"


def first_paragraph(source: str) -> str:
    found = re.match(r'"""(.*?)(?:"""|\n\n)', source, re.DOTALL)
    return found[1] if found else ""


def spoken(source: str) -> Iterator[tuple[int, str]]:
    """Texts of errors, log lines and output: constants inside of `raise` and of calls that speak."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            yield from _constants(node)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SPOKEN:
                yield from _constants(node)


def _constants(node: ast.AST) -> Iterator[tuple[int, str]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.lineno, each.value


def remarks(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and comments: neighbouring comment lines are one text, because a phrase may cross a line end."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.lineno, first.value.value
    block: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if block and token.start[0] != block[-1][0] + 1:
                yield block[0][0], "\n".join(text for _, text in block)
                block = []
            block.append((token.start[0], token.string.removeprefix("#").strip()))
    if block:
        yield block[0][0], "\n".join(text for _, text in block)


def everything_remarked() -> Iterator[tuple[str, int, str]]:
    """Path, line and complaint, of docstrings and comments in src."""
    for path in source_modules():
        yield from _in(path, list(remarks(path.read_text("utf-8"))), remark_complaints)


def everything_read() -> Iterator[tuple[str, int, str]]:
    """Path, line and complaint, of documents, pages, module openings and messages. Help is on docs/reference/cli.md."""
    pages = [ROOT / name for name in DOCUMENTS] + sorted((ROOT / "docs").rglob("*.md"))
    for path in pages:
        yield from _in(path, [(1, path.read_text("utf-8"))])
    for path in source_modules():
        source = path.read_text("utf-8")
        yield from _in(path, [(1, first_paragraph(source)), *dict.fromkeys(spoken(source))])


def _in(
    path: Path,
    texts: list[tuple[int, str]],
    check: Callable[[str], Iterator[tuple[int, str]]] = complaints,
) -> Iterator[tuple[str, int, str]]:
    for line, text in texts:
        for below, complaint in check(text):
            yield str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT)), line + below - 1, complaint


if __name__ == "__main__":
    for place, line, complaint in [*everything_read(), *everything_remarked()]:
        print(f"{place}:{line}: {complaint}")
