"""Three nodes whose only listener takes tokens: brokers log in to each other by OAUTHBEARER, with short tokens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from chronik.testing.certificates import Authority
from tests.broker.sasl.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider
from tests.broker.sasl.tokens import token_of

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("uncomplaining_nodes")]

LIFETIME_S = 4


def test_records_are_replicated_over_tokens_that_expire(tmp_path: Path) -> None:
    """Keys and tokens come by https from an authority that only the nodes' trust store knows."""
    authority = Authority()
    trust = tmp_path / "ca.pem"
    trust.write_text(authority.pem)
    with IdentityProvider(authority.server().write(tmp_path / "idp.pem")) as provider:
        provider.lifetime_s = LIFETIME_S
        client_token = token_of(int(time.time()), key=provider.key)  # valid for as long as the test takes
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": provider.url("/keys"),
            "sasl.oauthbearer.token.endpoint.url": provider.url("/token"),
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
            "sasl.jaas.config": f'{module} required ssl.truststore.type="PEM" ssl.truststore.location="{trust}";',
        }
        with Cluster(nodes=3, data=tmp_path / "data", settings=settings, in_process=False) as cluster:
            login: dict[str, Any] = {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda config: (client_token, 1e10),
                "log_level": 2,
            }
            admin = AdminClient(login)
            admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)
            producer = Producer({**login, "acks": "all", "enable.idempotence": True})
            asked = provider.asked["/token"]
            while provider.asked["/token"] < asked + 6:  # each node renews its token about twice
                producer.produce("t", b"x", partition=0)
                assert producer.flush(60) == 0
            while any(
                len(each.isrs) < 3 for each in admin.list_topics("t", timeout=60).topics["t"].partitions.values()
            ):
                pass
