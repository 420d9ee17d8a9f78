"""Ids of topics, directories and clusters in the format of Kafka's tools: URL-safe base64 without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def uuid_text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")
