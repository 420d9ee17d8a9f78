"""Keys of one listener before keys of the node, by Kafka's rules."""

from __future__ import annotations

import pytest

from chronik.broker.settings import Settings
from chronik.broker.settings.layers import Layers
from chronik.broker.settings.listener_keys import ListenerKeys
from chronik.runtime.machine import SIMULATED

STATIC = {
    "ssl.client.auth": "none",
    "listener.name.external.ssl.client.auth": "required",
    "sasl.jaas.config": "of all",
    "listener.name.external.sasl.jaas.config": "of the listener",
    "listener.name.external.plain.sasl.jaas.config": "of the mechanism",
}


@pytest.mark.parametrize(
    ("name", "key", "mechanism", "expected"),
    [
        ("EXTERNAL", "ssl.client.auth", "", "required"),
        ("external", "ssl.client.auth", "", "required"),
        ("INTERNAL", "ssl.client.auth", "", "none"),
        ("EXTERNAL", "ssl.keystore.type", "", None),
        ("EXTERNAL", "sasl.jaas.config", "", "of the listener"),
        ("EXTERNAL", "sasl.jaas.config", "PLAIN", "of the mechanism"),
        ("EXTERNAL", "sasl.jaas.config", "SCRAM-SHA-256", "of all"),
    ],
)
def test_the_nearest_value_counts(name: str, key: str, mechanism: str, expected: str | None) -> None:
    assert ListenerKeys(STATIC, name).text(key, mechanism) == expected


def test_what_was_set_at_run_time_counts_before_the_file() -> None:
    key = "listener.name.plaintext.ssl.keystore.location"
    settings = Settings.of(Layers({key: "/old"}, {}, {key: "/new"}), SIMULATED)
    assert settings.for_listener("PLAINTEXT").text("ssl.keystore.location") == "/new"
