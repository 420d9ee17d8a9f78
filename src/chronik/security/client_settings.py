"""The settings that a client needs to reach a cluster with SASL_SSL, for each client library.

Pure: it converts an Access to tables and texts, and opens nothing. Tables are for running programs; snippets are for
people, and name the password file instead of showing the password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PROTOCOL: Final = "SASL_SSL"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
FIRST_PRINTABLE, LAST_PRINTABLE = 0x20, 0x7E


@dataclass(frozen=True, slots=True)
class Access:
    """One user's access to a cluster."""

    bootstrap: str
    user: str
    password: str = field(repr=False)
    ca_file: str
    mechanism: str = "SCRAM-SHA-512"


def java(access: Access) -> dict[str, str]:
    """For Kafka's own clients and tools, and for `chronik --command-config`."""
    return {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": access.mechanism,
        "sasl.jaas.config": scram_jaas(access.user, access.password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": access.ca_file,
    }


def librdkafka(access: Access) -> dict[str, str]:
    """For confluent-kafka and every other binding of librdkafka."""
    return {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": access.mechanism,
        "sasl.username": access.user,
        "sasl.password": access.password,
        "ssl.ca.location": access.ca_file,
    }


def kafka_python(access: Access) -> dict[str, str]:
    return {**_python(access), "ssl_cafile": access.ca_file}


def aiokafka(access: Access) -> dict[str, object]:
    """aiokafka reads no files: it expects the trust store as an object."""
    from ssl import create_default_context

    return {**_python(access), "ssl_context": create_default_context(cafile=access.ca_file)}


def _python(access: Access) -> dict[str, str]:
    return {
        "bootstrap_servers": access.bootstrap,
        "security_protocol": PROTOCOL,
        "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }


TABLES: Final[Mapping[str, Callable[[Access], dict[str, Any]]]] = {
    "java": java,
    "librdkafka": librdkafka,
    "confluent-kafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def settings_of(library: str, access: Access) -> dict[str, Any]:
    """Raises ValueError for an unknown library."""
    if library not in TABLES:
        raise ValueError(f"{library!r} is not a known client: name one of {', '.join(TABLES)}")
    return TABLES[library](access)


def scram_jaas(user: str, password: str) -> str:
    """The value of sasl.jaas.config."""
    return f"{SCRAM_MODULE} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def properties_text(settings: Mapping[str, str], comment: str = "") -> str:
    """A properties file that both Java and Chronik can read: ASCII, with escapes for everything else."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines += [f"{key}={_escaped(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    made = []
    for place, character in enumerate(value):
        if character == "\\" or (place == 0 and character == " "):
            made.append(f"\\{character}")
        elif FIRST_PRINTABLE <= ord(character) <= LAST_PRINTABLE:
            made.append(character)
        else:
            units = character.encode("utf-16-be")
            made += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(made)


def snippets(access: Access, password_file: str, properties_file: str) -> dict[str, str]:
    """Code to copy, by library. Contains no password."""
    read = f'pathlib.Path("{password_file}").read_text().strip()'
    return {
        "Java": f"""\
Properties settings = new Properties();
settings.load(new FileReader("{properties_file}"));
Producer<String, String> producer =
    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());""",
        "confluent-kafka (librdkafka)": f"""\
producer = confluent_kafka.Producer({{
    "bootstrap.servers": "{access.bootstrap}",
    "security.protocol": "{PROTOCOL}",
    "sasl.mechanism": "{access.mechanism}",
    "sasl.username": "{access.user}",
    "sasl.password": {read},
    "ssl.ca.location": "{access.ca_file}",
}})""",
        "kafka-python": f"""\
producer = kafka.KafkaProducer(
    bootstrap_servers="{access.bootstrap}",
    security_protocol="{PROTOCOL}",
    sasl_mechanism="{access.mechanism}",
    sasl_plain_username="{access.user}",
    sasl_plain_password={read},
    ssl_cafile="{access.ca_file}",
)""",
        "aiokafka": f"""\
producer = aiokafka.AIOKafkaProducer(
    bootstrap_servers="{access.bootstrap}",
    security_protocol="{PROTOCOL}",
    sasl_mechanism="{access.mechanism}",
    sasl_plain_username="{access.user}",
    sasl_plain_password={read},
    ssl_context=ssl.create_default_context(cafile="{access.ca_file}"),
)""",
        "franz-go": f"""\
ca, _ := os.ReadFile("{access.ca_file}")
password, _ := os.ReadFile("{password_file}")
roots := x509.NewCertPool()
roots.AppendCertsFromPEM(ca)
login := scram.Auth{{User: "{access.user}", Pass: strings.TrimSpace(string(password))}}
client, err := kgo.NewClient(
    kgo.SeedBrokers(strings.Split("{access.bootstrap}", ",")...),
    kgo.DialTLSConfig(&tls.Config{{RootCAs: roots}}),
    kgo.SASL(login.{"AsSha512Mechanism" if access.mechanism.endswith("512") else "AsSha256Mechanism"}()),
)""",
    }
