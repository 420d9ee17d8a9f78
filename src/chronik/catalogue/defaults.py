"""The default of a key as a typed value, for code that runs without a configuration."""

from __future__ import annotations

from typing import Any

from chronik.catalogue.broker_keys import BROKER_KEYS
from chronik.catalogue.topic_keys import TOPIC_CONFIGS


def of_broker(key: str) -> Any:
    return BROKER_KEYS[key].parsed_default()


def of_topic(key: str) -> Any:
    return TOPIC_CONFIGS[key].parsed_default()
