"""One node for the suites of other projects, Chronik or Kafka: `python -m tests.oracle.suite_server chronik DIRECTORY`.

It has a listener of each security protocol and an authorizer, and the same server.properties whichever broker reads it.
The directory gets what clients need: ca.pem, client.pem, client.key, client.p12, NAME.properties for Kafka's tools, and
kafka/bin with those tools as commands. Ctrl-C stops the node. docs/reference/suites.md says which suites ran on it.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from chronik.testing.certificates import Authority
from tests.clients.drivers.kafka_tools import tools_jar
from tests.oracle.jars import kafka_jars

RELEASE = "4.3.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
LISTENERS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = {"admin": "admin-secret", "suite": "suite-secret"}
P12_PASSWORD = "p12-secret"
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
}


def login(mechanism: str, user: str, others: dict[str, str] | None = None) -> str:
    """The text of sasl.jaas.config; PLAIN's also names the users that a server lets in."""
    is_plain = mechanism == "PLAIN"
    module = "plain.PlainLoginModule" if is_plain else "scram.ScramLoginModule"
    known = "".join(f' user_{name}="{password}"' for name, password in (others or {}).items() if is_plain)
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{USERS[user]}"{known};'


def server_properties(directory: Path, port: int, further: dict[str, str]) -> dict[str, str]:
    controller = f"127.0.0.1:{port + len(LISTENERS)}"
    made = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": ",".join(
            [f"{each}://127.0.0.1:{port + at}" for at, each in enumerate(LISTENERS)] + [f"CONTROLLER://{controller}"]
        ),
        "advertised.listeners": ",".join(f"{each}://localhost:{port + at}" for at, each in enumerate(LISTENERS)),
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT," + ",".join(f"{each}:{each}" for each in LISTENERS),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(directory / "data"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "requested",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
        "delegation.token.secret.key": "suite-secret-key",
        "num.partitions": "4",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in MECHANISMS:
            made[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = login(mechanism, "admin", USERS)
    return made | further


def write(directory: Path, port: int, further: dict[str, str]) -> Path:
    """All files; the path of server.properties."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, mode=0o700)
    authority = Authority()
    authority.server(hosts=("localhost", "127.0.0.1")).write(directory / "server.pem")
    client = authority.client("suite")
    (directory / "ca.pem").write_text(authority.pem)
    (directory / "client.pem").write_text(client.certificate_pem)
    (directory / "client.key").write_text(client.key_pem)
    (directory / "client.p12").write_bytes(client.pkcs12(P12_PASSWORD))
    for user in USERS:
        lines = {
            "bootstrap.servers": f"localhost:{port + LISTENERS.index('SASL_SSL')}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": login("SCRAM-SHA-512", user),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
        _write(directory / f"{user}.properties", lines)
    commands = directory / "kafka" / "bin"
    commands.mkdir(parents=True)
    for name, main_class in TOOLS.items():
        (commands / name).write_text(f'#!/bin/sh\nexec {shlex.join(_java(main_class))} "$@"\n')
        (commands / name).chmod(0o755)
    return _write(directory / "server.properties", server_properties(directory, port, further))


def _write(path: Path, lines: dict[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def _java(main_class: str) -> list[str]:
    return ["java", *JVM_OPTIONS, "-cp", f"{tools_jar(RELEASE)}:{kafka_jars(RELEASE)}/*", main_class]


def commands_of(broker: str, properties: Path) -> tuple[list[str], list[str]]:
    """What gives the data directory its users, and what starts the node."""
    scram = [
        word
        for mechanism in MECHANISMS[1:]
        for name, password in USERS.items()
        for word in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]
    if broker == "kafka":
        formats = [*_java("kafka.tools.StorageTool"), "format", "-t", CLUSTER_ID, "-c", str(properties), *scram]
        return formats, [*_java("kafka.Kafka"), str(properties)]
    chronik = str(Path(sys.executable).with_name("chronik"))
    return [chronik, "storage", "format", str(properties), *scram], [chronik, "server", str(properties)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=("chronik", "kafka"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=19092, help="of PLAINTEXT; SSL and the others have the next ones")
    parser.add_argument("further", nargs="*", metavar="KEY=VALUE", help="further settings of the node")
    options = parser.parse_args()
    further = dict(each.split("=", 1) for each in options.further)
    formats, starts = commands_of(options.broker, write(options.directory.resolve(), options.port, further))
    subprocess.run(formats, check=True, stdout=subprocess.DEVNULL)
    with (options.directory / "server.log").open("wb") as log, subprocess.Popen(starts, stdout=log, stderr=log) as node:
        try:
            return node.wait()
        except KeyboardInterrupt:
            node.terminate()
            return 130


if __name__ == "__main__":
    sys.exit(main())
