"""Writes kafka-python.hex: the record builders of kafka-python, every magic and codec (with python-snappy and xxhash).

python tests/wire/data/writers/write_kafka_python.py > tests/wire/data/kafka-python.hex
"""

import kafka
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

T = 1_700_000_000_000
MIXED = [
    (T, b"k1", b"v1", [("h1", b"x"), ("h2", None)]),
    (T + 5, None, b"no key", []),
    (T + 2, b"tombstone", None, []),
    (T + 70, b"", b"", []),
    (T + 70_000, b"k1", b"ab" * 150, [("ä", b"")]),
]
LONG = [(T, None, b"0123456789abcdef" * 4400, [])]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SIZE_BYTES_MAX = 1 << 20


def write(name: str, magic: int, codec: int, records: list, producer: tuple[int, int, int] = (-1, -1, -1)) -> None:
    if magic == 2:
        is_transactional = producer[0] >= 0
        builder = DefaultRecordBatchBuilder(magic, codec, is_transactional, *producer, SIZE_BYTES_MAX)
    else:
        builder = LegacyRecordBatchBuilder(magic, codec, SIZE_BYTES_MAX)
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers if magic == 2 else [])
    print(name, bytes(builder.build()).hex())


if __name__ == "__main__":
    print(f"# written by kafka-python {kafka.__version__}: write_kafka_python.py")
    for magic in (0, 1, 2):
        for codec, codec_name in enumerate(CODECS):
            if magic < 2 and codec_name == "zstd":
                continue
            write(f"magic{magic}.{codec_name}.from0", magic, codec, MIXED)
            if codec:
                write(f"magic{magic}.{codec_name}.long", magic, codec, LONG)
    write("magic2.transactional", 2, 0, MIXED, (4_000_000_001, 3, 77))
