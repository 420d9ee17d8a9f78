"""kafka-python's decoders, made by two consumers of one process at the same time: both read what they are sent."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse
from kafka.protocol.schemas.fields.struct import StructField

from tests.clients.drivers import kafka_python

MEETING_SECONDS_MAX = 0.2  # for one thread to come upon the other, which it does not when they take turns


def test_two_consumers_may_get_a_response_for_the_first_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is made to look at the message's class just when the first, done, puts back what was there before."""
    assert StructField.compiled_decode_from is kafka_python._decoder_made_alone
    response, version = MetadataResponse, MetadataResponse.max_version
    data = bytes(response(version=version, brokers=[], cluster_id="any", controller_id=1, topics=[]).encode(version))
    monkeypatch.setattr(response._struct, "_compiled_encoders", {})
    emit = StructField.emit_decode_from
    are_two, is_made = threading.Event(), threading.Event()
    makers: list[int] = []

    def emit_when_due(self: Any, *args: Any, **kwargs: Any) -> None:
        if self is response._struct:
            makers.append(threading.get_ident())
            if len(makers) == 1:
                are_two.wait(MEETING_SECONDS_MAX)
            else:
                are_two.set()
                is_made.wait(MEETING_SECONDS_MAX)
        emit(self, *args, **kwargs)

    def decode() -> Any:
        try:
            return response.decode(data, version=version)
        finally:
            is_made.set()

    monkeypatch.setattr(StructField, "emit_decode_from", emit_when_due)
    with ThreadPoolExecutor(2) as consumers:
        decoded = [each.result() for each in [consumers.submit(decode) for _ in range(2)]]
    assert [each.cluster_id for each in (*decoded, decode())] == ["any"] * 3
