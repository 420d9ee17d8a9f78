"""Run-time checks of invariants: enough of them, each numbered as docs/reference/invariants.md numbers it."""

from __future__ import annotations

import re

from tests.house.invariant_sites import modules_by_number, product_sites, sites_in
from tests.house.repository import ROOT, SOURCE, own_files

SITES_MIN = 500
DOCUMENT = (ROOT / "docs" / "reference" / "invariants.md").read_text()
ROWS = {
    int(cells[1]): [cell.strip() for cell in cells]
    for line in DOCUMENT.splitlines()
    if (cells := line.split("|"))[1:] and cells[1].strip().isdigit()
}


SIMULATOR = sorted((SOURCE / "chronik" / "sim").rglob("*.py"))
CITATION = re.compile(r"\binvariants?\s+(\d{1,2}(?:(?:,\s*|\s+and\s+|,\s+and\s+)\d{1,2})*)\b", re.IGNORECASE)
JUDGEMENT = re.compile(r'^ *(?:name|[A-Z_]+) = "(\d{1,2}) [^"]+"$', re.MULTILINE)


def cited_numbers(text: str) -> set[int]:
    return {int(number) for numbers in CITATION.findall(text) for number in re.findall(r"\d+", numbers)}


def judged_numbers(text: str) -> set[int]:
    """The names under which a module of the simulator reports violations."""
    return {int(number) for number in JUDGEMENT.findall(text)}


def test_the_product_has_many_checks() -> None:
    """One check in a thousand lines finds nothing before the damage is done."""
    assert len(product_sites()) >= SITES_MIN


def test_every_check_says_which_invariant_it_is_about() -> None:
    """An operator who reads the last line of a node's log must find the broken guarantee."""
    unnumbered = [f"{site.module}:{site.line}" for site in product_sites() if site.number not in ROWS]
    assert unnumbered == [], "begin the promise with its number in docs/reference/invariants.md, as a literal"


def test_every_check_names_its_subject() -> None:
    """Without partition and offsets, the cause cannot be investigated."""
    silent = [f"{s.module}:{s.line}" for s in product_sites() if not s.has_values and not s.is_constant]
    assert silent == [], "pass the values that were compared: check(..., partition=..., offset=...)"


def test_the_document_says_where_each_invariant_is_checked() -> None:
    """`python -m tests.house.invariant_sites` prints what belongs there."""
    told = {number: re.findall("`([^`]+)`", cells[4]) for number, cells in ROWS.items()}
    assert {number: modules for number, modules in told.items() if modules} == modules_by_number(product_sites())


def test_every_number_that_is_cited_has_a_row() -> None:
    """In code, tests and documents alike: a number that is defined nowhere tells a reader nothing."""
    cited = {
        f"{path.relative_to(ROOT)}: {number}"
        for path in own_files()
        if path.suffix in (".py", ".md")
        for number in cited_numbers(path.read_text())
        if number not in ROWS
    }
    assert sorted(cited) == []


def test_the_document_says_where_the_simulator_judges_each_invariant() -> None:
    """An invariant without a checker is not tested, and a checker that is not listed is overlooked when its invariant
    changes."""
    judged = {(number, path.stem) for path in SIMULATOR for number in judged_numbers(path.read_text())}
    told = {(number, name) for number, cells in ROWS.items() for name in re.findall("`([^`]+)`", cells[3])}
    assert sorted(judged - told) == [], "docs/reference/invariants.md, third column: add the module"
    by_name = {path.stem: path.read_text() for path in SIMULATOR}
    assert [
        (number, name) for number, name in sorted(told - judged) if not re.search(rf"\b{number}\b", by_name[name])
    ] == [], "docs/reference/invariants.md, third column: the module does not mention the number"


def test_every_number_has_one_row() -> None:
    """Numbers are names: logs and simulator refer to them."""
    assert list(ROWS) == list(range(1, len(ROWS) + 1))


def test_the_rules_bite() -> None:
    """On small modules that break each of them."""
    head = "from chronik.runtime.invariants import broken, check as must\n"
    assert [site.number for site in sites_in("m", head + 'must(a, "7 held", a=a)\nif b: broken("x held")')] == [7, None]
    assert cited_numbers("Invariants 9, 10 and 12; invariant 7: no. 8") == {9, 10, 12, 7}
    assert judged_numbers('class A:\n    name = "18 one owner"\nSERVES = "25 all serve"\nlimit = "9"') == {18, 25}
    [computed] = sites_in("m", head + 'def f(a): must(a, f"7 {a}")')
    assert (computed.promise, computed.has_values, computed.is_constant) == (None, False, False)
    assert list(sites_in("m", 'def check(a, b): ...\ncheck(a, "7 held")')) == [], "another function of that name"
