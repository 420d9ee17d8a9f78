"""docs/reference/configuration.md agrees with the tables."""

from __future__ import annotations

from pathlib import Path

from chronik.broker.settings.document import document
from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.topic_keys import TOPIC_CONFIGS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_the_page_is_up_to_date() -> None:
    """A page that differs from the code is worse than none: `python -m chronik.broker.settings.document` writes it."""
    assert PAGE.read_text() == document()


def test_every_key_is_on_the_page() -> None:
    """Readers find what every key does, or that it has no effect."""
    page = document()
    assert [each.name for each in BROKER_KEYS if f"`{each.name}`" not in page] == []
    assert [name for name in TOPIC_CONFIGS if f"`{name}`" not in page] == []
