"""Ids of topics, directories and clusters as Kafka's tools print them: URL-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64encode


def uuid_text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
