"""The documentation as a site: every page has a place in the navigation, and every link leads somewhere.

`make docs` builds the site with zensical, which checks the same. These tests need no such tool.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.repository import ROOT

DOCS = ROOT / "docs"
SITE = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
KINDS = ("tutorials", "how-to", "reference", "explanation")
_link = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


def places(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from places(value)
    elif isinstance(entry, list):
        for each in entry:
            yield from places(each)


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def anchors_of(page: Path) -> set[str]:
    """As GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path, site: Path = DOCS) -> Iterator[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in _link.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        if not found.is_file() or not found.is_relative_to(site):
            yield f"{page.name}: {target}: there is no such page of the site"
        elif anchor and anchor not in anchors_of(found):
            yield f"{page.name}: {target}: the page has no such heading"


def test_every_page_has_one_place_in_the_navigation() -> None:
    """A page that cannot be found is useless. Add a line for a new page to zensical.toml."""
    listed = list(places(SITE["nav"]))
    assert sorted(listed) == [page.relative_to(DOCS).as_posix() for page in pages()]


def test_pages_are_in_the_folder_of_their_kind() -> None:
    """Tutorials, how-to guides, reference and explanations have separate folders."""
    folders = {page.relative_to(DOCS).parts[0] for page in pages() if page.parent != DOCS}
    assert folders == {*KINDS, "benchmarks"}
    assert [page.name for page in DOCS.glob("*.md")] == ["index.md"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


LINKS = {
    "[a](b.md)": None,
    "[a](b.md#the-end-of-it)": None,
    "[a](#here)": None,
    "[a](https://example.org/x.md)": None,
    "```\n[a](gone.md)\n```": None,
    "[a](gone.md)": "no such page",
    "[a](b.md#gone)": "no such heading",
    "[a](../b.md)": "no such page",
}


@pytest.mark.parametrize(("link", "complaint"), LINKS.items())
def test_broken_links_are_noticed(link: str, complaint: str | None, tmp_path: Path) -> None:
    site = tmp_path / "docs"
    site.mkdir()
    for outside in (site, tmp_path):
        (outside / "b.md").write_text("# B\n\n## The end, of it\n")
    page = site / "a.md"
    page.write_text(f"# Here\n\n{link}\n")
    found = list(broken_links(page, site))
    assert len(found) == (complaint is not None)
    assert complaint is None or complaint in found[0]


def test_the_site_loads_nothing_from_elsewhere() -> None:
    """It is also for machines without a way to the internet."""
    assert SITE["theme"]["font"] is False
