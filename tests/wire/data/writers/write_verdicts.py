"""Writes kafka-verdicts.hex: what a real broker answers to produced batches that each break one rule.

    python tests/wire/data/writers/write_verdicts.py HOST:PORT > tests/wire/data/kafka-verdicts.hex

Each line is a name, the error code of Produce v8, and the bytes that were sent.
`compacted.*` went to a topic with cleanup.policy=compact, `append_time.*` to one with LogAppendTime.
"""

import socket
import struct
import sys
import time
from pathlib import Path

from crc32c import crc32c
from kafka.admin import KafkaAdminClient, NewTopic

JAVA = Path(__file__).parent.parent / "java.hex"
SETS = dict(line.split() for line in JAVA.read_text().splitlines() if line[0] != "#")
GOOD = bytes.fromhex(SETS["magic2.none.from0"])
GZIP = bytes.fromhex(SETS["magic2.gzip.from0"])
NOT_LEADER_OR_FOLLOWER = 6
FIELDS = {  # where, and how wide
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def changed(batch: bytes = GOOD, **values: int) -> bytes:
    """The batch with other header fields, and a CRC that holds again."""
    made = bytearray(batch)
    for name, value in values.items():
        at, code = FIELDS[name]
        struct.pack_into(code, made, at, value)
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def with_byte(batch: bytes, at: int, value: int) -> bytes:
    made = bytearray(batch)
    made[at] = value
    return changed(bytes(made))


CASES = {
    "good": GOOD,
    "good_gzip": GZIP,
    "good_librdkafka_epoch": changed(epoch=0),
    "delete_horizon_bit": changed(attributes=0x40),
    "unused_attribute_bits": changed(attributes=0x7F80),
    "transactional_bit_alone": changed(attributes=0x10),
    "max_timestamp_wrong": changed(max_timestamp=5),
    "nothing": b"",
    "eleven_bytes": GOOD[:11],
    "up_to_magic": GOOD[:17],
    "sixty_bytes": GOOD[:60],
    "header_alone": GOOD[:61],
    "last_byte_missing": GOOD[:-1],
    "two_batches": GOOD + GOOD,
    "trailing_bytes": GOOD + b"\x00" * 5,
    "magic_0": bytes.fromhex(SETS["magic0.none.from0"]),
    "magic_1": bytes.fromhex(SETS["magic1.none.from0"]),
    "magic_3": changed(magic=3),
    "magic_minus_1": changed(magic=-1),
    "length_0": changed(length=0),
    "length_13": changed(length=13),
    "length_14": changed(length=14),
    "length_48": changed(length=48),
    "length_negative": changed(length=-1),
    "length_huge": changed(length=2**31 - 1),
    "length_48_alone": changed(length=48)[:60],
    "crc_wrong": GOOD[:17] + b"\x00\x00\x00\x00" + GOOD[21:],
    "payload_changed": GOOD[:-1] + b"!",
    "count_0": changed(record_count=0),
    "count_minus_1": changed(record_count=-1),
    "count_6": changed(record_count=6),
    "count_and_delta_0": changed(record_count=0, last_offset_delta=-1),
    "delta_3": changed(last_offset_delta=3),
    "delta_minus_1": changed(last_offset_delta=-1),
    "delta_max": changed(last_offset_delta=2**31 - 1),
    "count_and_delta_max": changed(last_offset_delta=2**31 - 2, record_count=2**31 - 1),
    "control": changed(attributes=0x20),
    "codec_5": changed(attributes=5),
    "codec_7": changed(attributes=7),
    "log_append_time": changed(attributes=8),
    "base_offset_7": changed(base_offset=7),
    "base_offset_negative": changed(base_offset=-1),
    "producer_without_sequence": changed(producer_id=5, producer_epoch=0),
    "producer_negative": changed(producer_id=-2),
    # Errors that the header does not show, found by parsing the records.
    "walk.count_and_delta_one_more": changed(record_count=6, last_offset_delta=5),
    "walk.count_and_delta_one_less": changed(record_count=4, last_offset_delta=3),
    "walk.plain_payload_called_gzip": changed(attributes=1),
    "walk.gzip_payload_called_plain": changed(GZIP, attributes=0),
    "walk.record_length_wrong": with_byte(GOOD, 61, 0x28),
    "walk.offset_deltas_not_in_order": with_byte(GOOD, 64, 0x04),
    "walk.key_length_beyond_record": with_byte(GOOD, 65, 0x7E),
    "walk.header_count_negative": with_byte(GOOD, 71, 0x03),
    "walk.header_key_null": with_byte(GOOD, 72, 0x01),
    "compacted.null_key": GOOD,
    "append_time.good": GOOD,
    "append_time.log_append_time": changed(attributes=8),
}

TOO_LARGE = changed(GOOD[:61] + bytes(1_100_000), length=49 + 1_100_000)


def produce(address: tuple[str, int], topic: str, records: bytes) -> int:
    name = struct.pack(">h", len(topic)) + topic.encode()
    body = struct.pack(">hhii", -1, 1, 5000, 1) + name + struct.pack(">iii", 1, 0, len(records)) + records
    frame = struct.pack(">hhih", 0, 8, 1, -1) + body
    with socket.create_connection(address) as connection, connection.makefile("rb") as stream:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        prefix = stream.read(4)
        if len(prefix) < 4:
            return 999  # the broker closed the connection
        answer = stream.read(int.from_bytes(prefix, "big"))
    return struct.unpack_from(">h", answer, 4 + 4 + len(name) + 4 + 4)[0]


if __name__ == "__main__":
    host, _, port = sys.argv[1].partition(":")
    admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
    admin.create_topics(
        [
            NewTopic("plain", 1, 1),
            NewTopic("compacted", 1, 1, topic_configs={"cleanup.policy": "compact"}),
            NewTopic("append_time", 1, 1, topic_configs={"message.timestamp.type": "LogAppendTime"}),
        ]
    )
    address = (host, int(port))
    for topic in ("plain", "compacted", "append_time"):
        while produce(address, topic, b"") == NOT_LEADER_OR_FOLLOWER:
            time.sleep(0.1)
    print("# answered by Apache Kafka 4.3.1 to Produce v8, topics with default settings: write_verdicts.py")
    for case, sent in CASES.items():
        topic = case.partition(".")[0] if case.startswith(("compacted.", "append_time.")) else "plain"
        print(case, produce(address, topic, sent), sent.hex() or "-")
    # Too large to be kept as hex: 61 bytes of header and a million zeros.
    print("too_large", produce(address, "plain", TOO_LARGE), TOO_LARGE[:61].hex())
