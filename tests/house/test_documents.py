"""The documents agree with the repository: what they name exists, and what exists is documented."""

from __future__ import annotations

import re

import pytest

from tests.house.repository import ROOT, SOURCE

DESIGN = (ROOT / "DESIGN.md").read_text()
PACKAGES = sorted(path.parent.name for path in (SOURCE / "chronik").glob("*/__init__.py"))


def paths_in(text: str) -> set[str]:
    """Text in backticks that looks like a path from the root of the repository."""
    return set(
        re.findall(r"`((?:src|tests|tools|benchmarks|requirements|[.]ci)/[^`<*]*|[A-Za-z]+[.](?:md|toml))`", text)
    )


@pytest.mark.parametrize("document", ["README.md", "DESIGN.md", "CONTRIBUTING.md"])
def test_every_path_named_exists(document: str) -> None:
    """A map with a street that is gone sends people astray."""
    named = paths_in((ROOT / document).read_text())
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_link_leads_somewhere() -> None:
    """A broken link is the first thing a visitor finds."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_its_row_among_the_layers(package: str) -> None:
    """A package without a place in the design has not been designed."""
    rows = [line for line in DESIGN.splitlines() if line.startswith("|") and f"`{package}`" in line.split("|")[1]]
    assert len(rows) == 1, f"DESIGN.md, table of layers: one row for `{package}`"
    empty = len(list((SOURCE / "chronik" / package).glob("*.py"))) == 1
    assert empty or not rows[0].endswith("| next |"), f"DESIGN.md, table of layers: `{package}` is no longer next"


def test_the_licence_is_whole() -> None:
    """Apache-2.0 in full, as the package's metadata says."""
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_contributing_describes_the_folders_of_tests() -> None:
    """The tests of a package are in the folder with its name, and every other folder is in the table."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if any(path.glob("**/test_*.py"))}
    described = set(re.findall(r"^\| `tests/(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    packages = {each for each in PACKAGES if any((SOURCE / "chronik" / each).glob("[a-z]*.py"))}
    assert packages <= folders
    assert folders - packages == described


MODULES = {"pyjwt": "jwt", "google-re2": "re2", "pyyaml": "yaml"}  # where the name of the package to install differs


def test_the_design_says_who_uses_each_dependency() -> None:
    """A dependency that spreads is hard to replace."""
    table = DESIGN.split("## Dependencies")[1].split("\n## ")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) >= 8
    for names, _, users in rows:
        modules = "|".join(MODULES.get(name.strip(), name.strip()) for name in names.split(","))
        statement = re.compile(rf"^ *(?:from|import) (?:{modules})\b", re.MULTILINE)
        found = {
            path.relative_to(SOURCE / "chronik").parts[0]
            for path in (SOURCE / "chronik").rglob("*.py")
            if statement.search(path.read_text())
        }
        assert found == set(re.findall(r"`(\w+)`", users)), names


# The changes that come most often, and the test that makes each of them in a copy of the sources.
CHANGES = {
    "Adding an API": ("tests/broker/test_adding_an_api.py", "ScratchCopy(tmp_path)"),
    "Asking for a permission": ("tests/broker/test_change_requests.py", "ScratchCopy(tmp_path)"),
    "Sending a request to another node": ("tests/broker/test_change_requests.py", "ScratchCopy(tmp_path)"),
    "Adding a configuration key": ("tests/catalogue/test_adding_a_key.py", "ScratchCopy(tmp_path)"),
    "Adding an internal topic with a coordinator": ("tests/broker/test_coordinators.py", "FILES_MAX"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_common_change_is_described_and_done_by_a_test(change: str) -> None:
    """Instructions that no test follows become wrong. Each says how many files it takes: three at most."""
    sections = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n## ")
    [section] = [each for each in sections if each.startswith(f"{change}\n")]
    test, copies = CHANGES[change]
    assert f"`{test}`" in section
    assert re.search(r"^(One file|Two files|Three files)\b", section, re.MULTILINE)
    assert copies in (ROOT / test).read_text("utf-8")
