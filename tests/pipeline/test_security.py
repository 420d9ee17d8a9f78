"""A secured cluster seen by the pipeline without Spark: options, TLS and logins of tasks and drivers, access rules."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.client.addresses import parse_addresses
from chronik.client.errors import Refused, Unreachable
from chronik.client.topology import TopicPartition
from chronik.pipeline import connection, sink_options
from chronik.pipeline import security as security_module
from chronik.pipeline.cluster import BlockingCluster
from chronik.pipeline.connection import BlockingConnection
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.live_cluster import LiveCluster
from chronik.pipeline.options import parse
from chronik.pipeline.reading import read_range
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity, security_in, security_of
from chronik.testing.certificates import Authority
from chronik.wire.error_codes import ErrorCode
from tests.pipeline import batch_writer
from tests.pipeline.secured import ADMIN, ALICE, LIFETIME_MS, MECHANISMS, PASSWORD, PLAIN, SCRAM, Secured, as_options

LOGIN = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="{PASSWORD}";'
SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": SCRAM, "kafka.sasl.jaas.config": LOGIN}
TOPIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
SINK = {"kafka.bootstrap.servers": "localhost:9092", "topic": "orders"}
JKS = bytes.fromhex("feedfeed0000000200000000")

Make = Callable[[str], str]


def values(security: QuerySecurity, bootstrap: str, topic: str, count: int) -> list[bytes]:
    """As a task reads them."""
    found = read_range(bootstrap, topic, 0, start=0, end=count, columns=["value"], security=security, timeout_ms=30_000)
    return [value for batch in found for value in batch.column("value").to_pylist()]


# --- options


def test_source_and_sink_take_the_options_of_sparks_own_kafka_source() -> None:
    """A query moves over by changing its format; upper and lower case are the same."""
    given = {**SASL, "KAFKA.SSL.TRUSTSTORE.LOCATION": "/ca.p12", "kafka.ssl.truststore.password": "x"}
    expected = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": SCRAM,
        "sasl.jaas.config": LOGIN,
        "ssl.truststore.location": "/ca.p12",
        "ssl.truststore.password": "x",
    }
    without_effect = {"kafka.ssl.protocol": "TLSv1.3", "kafka.ssl.keymanager.algorithm": "PKIX"}
    assert dict(parse({**TOPIC, **given, **without_effect}, is_stream=True).security.properties) == expected
    assert dict(sink_options.parse({**SINK, **given, **without_effect}).security.properties) == expected
    assert parse(TOPIC, is_stream=True).security == NO_QUERY_SECURITY


REFUSALS = [
    ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol", "SASL_SSL"),
    ({**SASL, "kafka.sasl.mechanism": "GSSAPI"}, "kafka.sasl.mechanism", "SCRAM-SHA-256"),
    ({**SASL, "kafka.sasl.mechanism": "OAUTHBEARER"}, "kafka.sasl.mechanism", "PLAIN"),
    ({**SASL, "kafka.sasl.jaas.config": "KafkaClient"}, "kafka.sasl.jaas.config", "LoginModule required"),
    ({**SASL, "kafka.sasl.jaas.config": "Krb5LoginModule required;"}, "kafka.sasl.jaas.config", "username"),
    (
        {
            **SASL,
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": LOGIN.replace("required", "required tokenauth=true"),
        },
        "kafka.sasl.mechanism",
        "delegation token",
    ),
    ({**SASL, "kafka.sasl.kerberos.service.name": "kafka"}, "kafka.sasl.kerberos.service.name", "GSSAPI"),
    ({**SASL, "kafka.sasl.login.class": "x.Y"}, "kafka.sasl.login.class", "Java"),
    ({"kafka.sasl.jaas.config": LOGIN}, "kafka.sasl.jaas.config", "kafka.security.protocol is PLAINTEXT"),
    ({"kafka.ssl.keystore.password": PASSWORD}, "kafka.ssl.keystore.password", "kafka.security.protocol is PLAINTEXT"),
    ({"commandConfig": "/nowhere/client.properties"}, "commandConfig", "cannot read the file"),
    ({"commandConfig": f"sasl.jaas.config={PASSWORD}"}, "commandConfig", "names a file"),
]


@pytest.mark.parametrize(("given", "option", "words"), REFUSALS)
def test_what_cannot_be_used_is_one_condition_that_names_the_option(
    given: dict[str, str], option: str, words: str
) -> None:
    """Before the query starts, in source and sink alike, and without the password."""
    for attempt in (lambda: parse({**TOPIC, **given}, is_stream=True), lambda: sink_options.parse({**SINK, **given})):
        with pytest.raises(PipelineError) as refused:
            attempt()
        assert (refused.value.condition, refused.value.parameters["option"]) == ("UNSUPPORTED_SECURITY", option)
        assert words in str(refused.value)
        assert PASSWORD not in repr(refused.value)


def test_a_misspelt_option_gets_the_nearest_name() -> None:
    """A trust store that is not used would show as a certificate that is not trusted."""
    with pytest.raises(PipelineError, match=r"UNKNOWN_OPTION.*'kafka.ssl.truststore.location'"):
        parse({**TOPIC, **SASL, "kafka.ssl.truststore.locaton": "/ca"}, is_stream=True)


def test_a_file_says_it_instead_and_options_beside_it_are_refused(tmp_path: Path) -> None:
    """Two places that say different things would leave open which of them counts."""
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={LOGIN}\nacks=all\n")
    made = parse({**TOPIC, "commandConfig": str(file)}, is_stream=True).security
    assert dict(made.properties)["sasl.jaas.config"] == LOGIN
    assert "acks" not in dict(made.properties)
    assert made.options == {"commandConfig": str(file)}  # what plans of Spark show
    with pytest.raises(PipelineError, match="CONFLICTING_OPTIONS"):
        parse({**TOPIC, **SASL, "commandConfig": str(file)}, is_stream=True)


def test_a_line_of_the_file_that_cannot_be_read_is_not_shown(tmp_path: Path) -> None:
    """The reader of server.properties shows the value; here it is a password."""
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.key.password={PASSWORD}\\u12\n")
    with pytest.raises(PipelineError, match=r"ssl.key.password: .u takes four hexadecimal digits") as refused:
        security_in(str(file))
    assert PASSWORD not in repr(refused.value) + repr(refused.value.__cause__)


def test_options_and_what_goes_to_workers_hide_their_values() -> None:
    """Spark prints options objects where a task fails, and Python prints arguments where a call does."""
    given = {**SASL, "kafka.ssl.keystore.key": f"-----BEGIN {PASSWORD}", "kafka.ssl.key.password": PASSWORD}
    for made in (parse({**TOPIC, **given}, is_stream=True), sink_options.parse({**SINK, **given})):
        assert pickle.loads(pickle.dumps(made)) == made
        assert PASSWORD not in repr(made)
        assert "SASL_SSL" in repr(made)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("JKS", "store.jks", r"keytool -importkeystore .*store.jks .*-deststoretype PKCS12"),
        ("PEM", "missing.pem", r"cannot read the file.*every worker read it.*ssl.keystore.key"),
    ],
)
def test_a_key_store_that_cannot_be_used_says_what_to_do(kind: str, name: str, expected: str, tmp_path: Path) -> None:
    """On the machine that needs it, which may be a worker's."""
    (tmp_path / "store.jks").write_bytes(JKS)
    given = {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.type": kind}
    given["kafka.ssl.keystore.location"] = str(tmp_path / name)
    if kind == "JKS":
        given["kafka.ssl.keystore.password"] = PASSWORD
    made = security_of(given)
    with pytest.raises(
        PipelineError, match=rf"(?s)UNSUPPORTED_SECURITY.*kafka.ssl.keystore.location.*{expected}"
    ) as why:
        made.checked()
    assert PASSWORD not in str(why.value)
    assert ("missing" in name) == (socket.gethostname() in str(why.value))


# --- connections


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_tasks_and_drivers_log_in_over_tls(secured: Secured, unique: Make, mechanism: str) -> None:
    """The blocking connection of workers and the asynchronous one of drivers, by each mechanism."""
    topic = secured.topic(unique("logins"), ("a", "b", "c"))
    security = secured.security(ADMIN if mechanism == PLAIN else ALICE, mechanism)
    if mechanism != PLAIN:
        secured.allow(f"chronik acl add --principal alice --operation read --topic {topic}")
    cluster = BlockingCluster(secured.main, client_id="test", security=security)
    assert cluster.topics([topic])[topic].partitions == (0,)
    assert cluster.offsets({TopicPartition(topic, 0): -1}, 1) == {TopicPartition(topic, 0): 3}
    cluster.close()
    assert values(security, secured.main, topic, 3) == [b"a", b"b", b"c"]


def test_a_login_without_tls(secured: Secured, unique: Make) -> None:
    topic = secured.topic(unique("plain"), ("a",))
    told = {**secured.properties(ADMIN, PLAIN), "security.protocol": "SASL_PLAINTEXT"}
    assert values(security_of(as_options(told)), secured.unencrypted, topic, 1) == [b"a"]


def test_a_reader_logs_in_again_before_its_login_ends(
    secured: Secured, unique: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers close a connection whose login has expired, and its pending requests are lost."""
    topic = secured.topic(unique("long"))
    for value in ("a", "b", "c"):  # a batch each
        secured.topic(topic, (value,))
    made: list[BlockingConnection] = []

    class Counted(BlockingConnection):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            made.append(self)

    monkeypatch.setattr(security_module, "BlockingConnection", Counted)
    told = {**secured.properties(ADMIN, PLAIN), "security.protocol": "SASL_PLAINTEXT"}
    logged_in = security_of(as_options(told))
    reading = read_range(
        secured.unencrypted, topic, 0, start=0, end=3, columns=["value"], fetch_bytes_max=1, security=logged_in
    )
    found = [next(reading)]
    assert [each.is_retired for each in made] == [False]
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + LIFETIME_MS / 1000)
    monkeypatch.setattr(connection, "time", late)
    found.append(next(reading))  # this one was requested before
    assert len(made) == 1
    assert made[0].is_retired
    found += reading
    assert [value for batch in found for value in batch.column("value").to_pylist()] == [b"a", b"b", b"c"]
    assert len(made) == 2


@pytest.mark.parametrize("form", ["file", "inline", "encrypted", "PKCS12"])
def test_a_certificate_is_the_login_of_a_task(secured: Secured, unique: Make, form: str) -> None:
    """From each form of key store that Kafka's clients take and that Python can read."""
    topic = secured.topic(unique("mutual"), ("a",))
    boss = secured.files.authority.client("boss")
    store = secured.directory / f"boss-{form}"
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": secured.files.authority.pem}
    told = {"security.protocol": "SSL", **trust, "ssl.keystore.type": "PKCS12" if form == "PKCS12" else "PEM"}
    if form == "file":
        told["ssl.keystore.location"] = str(boss.write(store))
    elif form == "inline":
        told |= {"ssl.keystore.key": boss.key_pem, "ssl.keystore.certificate.chain": boss.certificate_pem}
    elif form == "encrypted":
        key = boss.encrypted_key_pem(PASSWORD)
        told |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": boss.certificate_pem}
        told["ssl.key.password"] = PASSWORD
    else:
        store.write_bytes(boss.pkcs12(PASSWORD))
        told |= {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    security = security_of(as_options(told))
    assert security.principal == "User:CN=boss"
    assert values(security, secured.mutual, topic, 1) == [b"a"]
    assert topic in LiveCluster(secured.mutual, security).topics()


def connect(secured: Secured, address: str, **properties: str) -> None:
    """As a task connects."""
    told = {**secured.properties(ADMIN, PLAIN), **{key.replace("_", "."): text for key, text in properties.items()}}
    security_of(as_options(told)).connector("test")(parse_addresses(address)[0]).close()


def test_who_is_not_let_in_is_told_why(secured: Secured) -> None:
    """Each of these looks like a broker that hangs up, unless it is put into words."""
    login = secured.properties(ADMIN, PLAIN)["sasl.jaas.config"].replace(PASSWORD, "wrong")
    with pytest.raises(Refused) as wrong:
        connect(secured, secured.main, sasl_jaas_config=login)
    assert wrong.value.kafka_error is ErrorCode.SASL_AUTHENTICATION_FAILED
    foreign = secured.directory / "foreign.pem"
    foreign.write_text(Authority("Foreign").pem)
    with pytest.raises(Unreachable, match="by TLS: its certificate is not accepted"):
        connect(secured, secured.main, ssl_truststore_location=str(foreign))
    with pytest.raises(Unreachable, match=r"it wants a certificate: set ssl.keystore"):
        connect(secured, secured.mutual, security_protocol="SSL")
    with pytest.raises(Unreachable, match="has this listener TLS"):
        connect(secured, secured.unencrypted)


def test_the_hosts_name_is_checked_unless_the_check_is_turned_off(secured: Secured) -> None:
    """0.0.0.0 reaches this machine, and the certificate names only localhost, 127.0.0.1 and ::1."""
    address = secured.main.replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(Unreachable, match="certificate is not accepted"):
        connect(secured, address)
    connect(secured, address, ssl_endpoint_identification_algorithm="")


# --- access rules


@pytest.mark.slow
def test_each_denial_names_what_is_missing_and_the_command_that_allows_it(secured: Secured, unique: Make) -> None:
    """An exactly-once sink needs four permissions. Running the command of each error leads to the next error, and
    finally to success."""
    topic, user = secured.topic(unique("denied")), secured.user(unique("writer"))
    to = batch_writer.options(secured.main, topic, security=secured.security(user))
    query = unique("query")
    for missing in (
        ("read", "group", f"chronik-spark/{query}"),
        ("read", "topic", "__consumer_offsets"),
        ("write", "transactional id", f"chronik-spark/{query}"),
        ("write", "topic", topic),
    ):
        with pytest.raises(PipelineError) as denied:
            batch_writer.write_batch(to, query, "run", 0, [["a", "b"]])
        told = denied.value.parameters
        assert (denied.value.condition, told["principal"]) == ("ACCESS_DENIED", f"User:{user}")
        assert (told["operation"], told["resource"], told["name"]) == missing
        secured.allow(told["command"])
    batch_writer.write_batch(to, query, "run", 0, [["a", "b"]])
    assert [value.decode() for value in values(secured.admin.security, secured.main, topic, 3)] == ["a", "b"]


def test_reading_and_creating_are_denied_in_the_same_words(secured: Secured, unique: Make) -> None:
    topic, new = secured.topic(unique("hidden"), ("a",)), unique("new")
    alice = secured.security(ALICE)
    cluster = BlockingCluster(secured.main, client_id="test", security=alice)
    reads = {"operation": "read", "resource": "topic", "name": topic, "principal": "User:alice"}
    with pytest.raises(PipelineError) as planned:
        cluster.topics([topic])
    cluster.close()
    with pytest.raises(PipelineError) as read:
        values(alice, secured.main, topic, 1)
    for denied in (planned.value, read.value):
        assert denied.condition == "ACCESS_DENIED"
        assert denied.parameters == {**denied.parameters, **reads}
    secured.allow(read.value.parameters["command"])
    assert values(alice, secured.main, topic, 1) == [b"a"]
    as_alice = LiveCluster(secured.main, alice)
    assert not as_alice.create_topic(topic, 1)  # it exists, and she may see it
    with pytest.raises(PipelineError, match=f"ACCESS_DENIED.*create topic '{new}'"):
        as_alice.create_topic(new, 1)
    secured.allow(f"chronik acl add --principal alice --operation write --topic {new}")
    rows = batch_writer.pa.record_batch({"value": batch_writer.pa.array(["a"])})
    to = sink_options.parse({**secured.options(ALICE), "topic": new})
    with pytest.raises(PipelineError) as made:
        batch_writer.write_rows(iter([rows]), to)
    assert (made.value.parameters["operation"], made.value.parameters["name"]) == ("create", new)
    secured.allow(made.value.parameters["command"])
    batch_writer.write_rows(iter([rows]), to)
