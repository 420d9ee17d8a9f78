"""A secured cluster in a real Spark: source and sink by each kind of login, and what Spark shows of secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from chronik.pipeline import spark_home
from chronik.pipeline.events import EVENTS_TOPIC
from chronik.pipeline.reading import read_range
from chronik.pipeline.session import LOG_LEVEL
from tests.pipeline.secured import ADMIN, ALICE, MECHANISMS, PASSWORD, PLAIN, Secured, as_options
from tests.pipeline.spark_session import patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

Make = Callable[[str], str]


def committed(secured: Secured, topic: str) -> list[bytes]:
    end = secured.admin.ends(topic)[0]
    found = read_range(secured.main, topic, 0, start=0, end=end, columns=["value"], security=secured.admin.security)
    return [value for batch in found for value in batch.column("value").to_pylist()]


def shown_by(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> Iterator[str]:
    """What Spark keeps of a query, for people, for its pages and for its next run."""
    yield query._jsq.explainInternal(True)  # type: ignore[attr-defined]
    yield from (progress.json for progress in query.recentProgress)
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for index in range(executions.size()):
        execution = executions.apply(index)
        yield f"{execution.description()} {execution.details()} {execution.physicalPlanDescription()}"
    for file in checkpoint.rglob("*"):
        if file.is_file():
            yield file.read_bytes().decode("latin-1")


def test_a_restricted_user_reads_and_writes_exactly_once_over_sasl_ssl(
    spark: SparkSession, secured: Secured, unique: Make, tmp_path: Path
) -> None:
    """Driver and tasks log in, on both sides of a query, and nothing that Spark keeps of it has the password."""
    source, target = secured.topic(unique("from"), ("a", "b", "c")), secured.topic(unique("to"))
    user = secured.user(unique("restricted"))
    for rule in (
        f"--operation read --topic {source} --topic __consumer_offsets",
        f"--operation write --topic {target}",
        "--operation read --group reader",
        "--operation read --group chronik-spark/ --prefix",
        "--operation write --transactional-id chronik-spark/ --prefix",
    ):
        secured.allow(f"chronik acl add --principal {user} {rule}")
    frame = (
        spark.readStream.format("chronik")
        .options(**secured.options(user))
        .option("subscribe", source)
        .option("kafka.group.id", "reader")
        .option("startingOffsets", "earliest")
        .load()
    )
    checkpoint = tmp_path / "checkpoint"

    def run() -> StreamingQuery:
        query = (
            frame.select("value")
            .writeStream.format("chronik")
            .options(**secured.options(user))
            .options(topic=target, exactlyOnce="true", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    query = patiently(run)
    assert committed(secured, target) == [b"a", b"b", b"c"]
    plans = frame._jdf.queryExecution().toString()
    everything = [plans, *shown_by(spark, query, checkpoint)]
    assert any(source in text for text in everything[1:])  # so that the check covers something
    assert [text for text in everything if PASSWORD in text] == []


def stores(secured: Secured) -> dict[str, dict[str, str]]:
    """Key stores and trust stores by their forms; keytool makes those in which Java looks for trusted certificates."""
    boss, folder = secured.files.authority.client("boss"), secured.directory
    (folder / "boss.p12").write_bytes(boss.pkcs12(PASSWORD))
    trust = folder / "trust.p12"
    if not trust.exists():
        keytool = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(secured.files.trust)]
        store = ["-keystore", str(trust), "-storetype", "PKCS12", "-storepass", PASSWORD]
        subprocess.run([*keytool, *store], check=True, capture_output=True)
    pem = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(secured.files.trust)}
    return {
        "PEM files": {
            **pem,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(boss.write(folder / "boss.pem")),
        },
        "PEM inline": {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": secured.files.authority.pem,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": boss.key_pem,
            "ssl.keystore.certificate.chain": boss.certificate_pem,
        },
        "PKCS12": {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(trust),
            "ssl.truststore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(folder / "boss.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        },
    }


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_options_of_sparks_own_kafka_source_mean_the_same(
    spark: SparkSession, secured: Secured, unique: Make
) -> None:
    """The same options for both formats: the same rows, or both refuse."""
    topic = secured.topic(unique("same"), ("a", "b", "c"))
    logins = {mechanism: (secured.main, secured.properties(ADMIN, mechanism)) for mechanism in MECHANISMS[:1]}
    logins |= {mechanism: (secured.main, secured.properties(ALICE, mechanism)) for mechanism in MECHANISMS[1:]}
    logins["unencrypted"] = (
        secured.unencrypted,
        {**secured.properties(ALICE), "security.protocol": "SASL_PLAINTEXT"},
    )
    logins |= {form: (secured.mutual, {"security.protocol": "SSL", **store}) for form, store in stores(secured).items()}
    secured.allow(f"chronik acl add --principal {ALICE} --operation read --topic {topic}")
    secured.allow(f"chronik acl add --principal {ALICE} --operation read --group spark --prefix")
    for name, (bootstrap, told) in logins.items():
        rows = {form: read(spark, form, bootstrap, topic, told) for form in ("kafka", "chronik")}
        assert rows["chronik"] == rows["kafka"] == [b"a", b"b", b"c"], name
    wrong = secured.properties(ADMIN, PLAIN, password="wrong")
    for form in ("kafka", "chronik"):
        with pytest.raises((PySparkException, Py4JJavaError)) as refused:
            read(spark, form, secured.main, topic, wrong)
        assert "Authentication failed" in str(refused.value), form


def read(spark: SparkSession, form: str, bootstrap: str, topic: str, told: dict[str, str]) -> list[bytes]:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **as_options(told)}
    frame = spark.read.format(form).options(**options).load()
    return patiently(lambda: [bytes(row.value) for row in frame.select("value", "offset").orderBy("offset").collect()])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nothing_that_queries_print_and_write_has_a_secret(secured: Secured, unique: Make, tmp_path: Path) -> None:
    """Logs at INFO, plans, errors, Spark's events, checkpoints and local files, of queries that work and that fail."""
    source, target = secured.topic(unique("from"), ("a", "b")), secured.topic(unique("to"))
    inline = {"security.protocol": "SSL", **stores(secured)["PEM inline"]}
    given = {
        "source": source,
        "target": target,
        "folder": str(tmp_path),
        "login": secured.options(ADMIN, PLAIN),
        "denied": secured.options(ALICE),
        "certificate": {"kafka.bootstrap.servers": secured.mutual, **as_options(inline)},
    }
    spark_home.settle_in()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment |= {"SPARK_LOCAL_DIRS": str(tmp_path / "local"), LOG_LEVEL: "INFO"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.secured_queries"],
        input=json.dumps(given),
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "ALL QUERIES HAVE RUN" in done.stdout, done.stderr[-3000:]
    assert "ACCESS_DENIED" in done.stdout
    texts = {"stdout": done.stdout, "stderr": done.stderr}
    texts |= {str(file): file.read_bytes().decode("latin-1") for file in tmp_path.rglob("*") if file.is_file()}
    assert any("SparkListenerSQLExecutionStart" in text for text in texts.values())
    key = inline["ssl.keystore.key"].splitlines()[1]
    assert [name for name, text in texts.items() if PASSWORD in text or key in text] == []
    assert committed(secured, target) == [b"a", b"b"] * 2


PIPELINE = """
from chronik.pipeline import bronze, to_topic

command_config = "etl.properties"

@bronze(topic="{source}", decode="json", schema="id long")
def raw(records):
    return records

@to_topic(topic="{target}", key="id")
def out(raw):
    return raw.select("id")
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_pipeline_runs_with_the_permissions_that_the_documentation_lists(
    secured: Secured, unique: Make, tmp_path: Path
) -> None:
    """A table, dead letters and a topic, by a user without other permissions. No output contains the password."""
    user = secured.user("etl")
    source = secured.topic(unique("orders"), ('{"id": 1}', '{"id": 2}', "no JSON"))
    target, letters, events = secured.topic(unique("ids")), secured.topic(f"{source}.dlq"), EVENTS_TOPIC
    secured.topic(events)
    for rule in (
        f"--operation read --topic {source} --topic {letters} --topic {events} --topic __consumer_offsets",
        f"--operation write --topic {target} --topic {letters} --topic {events}",
        f"--operation describe-configs --topic {source}",
        "--operation read --group shop. --group chronik-spark/ --prefix",
        "--operation write --transactional-id chronik-spark/ --prefix",
    ):
        secured.allow(f"chronik acl add --principal {user} {rule}")
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE.replace("{source}", source).replace("{target}", target))
    told = secured.properties(user)
    (tmp_path / "etl.properties").write_text("".join(f"{key}={value}\n" for key, value in told.items()))
    where = ["--bootstrap", secured.main, "--storage", str(tmp_path / "lake"), "--format", "json"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), LOG_LEVEL: "INFO"}
    command = [sys.executable, "-m", "chronik.cli", "pipeline", "run", str(file), "--once", *where]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout
    rows = {row["flow"]: row for row in json.loads(done.stdout)}
    assert (rows["raw"]["rows_out"], rows["raw"]["rows_dead"]) == (2, 1)
    assert committed(secured, target) == [b'{"id":1}', b'{"id":2}']
    assert committed(secured, letters) == [b"no JSON"]
    texts = {"out": done.stdout, "err": done.stderr, "events": repr(committed(secured, events))}
    texts |= {str(path): path.read_bytes().decode("latin-1") for path in tmp_path.rglob("lake/**/*") if path.is_file()}
    assert "shop" in texts["events"]
    assert [name for name, text in texts.items() if PASSWORD in text] == []
