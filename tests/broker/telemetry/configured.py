"""Images with metrics subscriptions."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

from immutables import Map

from chronik.metadata.image import EMPTY, ConfigResource, Image, ResourceType


def configured(**subscriptions: Mapping[str, str]) -> Image:
    """By their names."""
    configs = {ConfigResource(ResourceType.CLIENT_METRICS, name): Map(own) for name, own in subscriptions.items()}
    image = copy(EMPTY)
    image.configs = Map(configs)
    return image
