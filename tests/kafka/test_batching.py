"""Whole batches are the records that kafka-python makes of the same bytes."""

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition
from stream_leip_connectors._kernels.batches import locate
from stream_leip_connectors.kafka.batching import batched, columns
from stream_leip_connectors.kafka.records import OneRecord, Records

AT = TopicPartition("predictions", 3)
BASE: Any = Fetcher.PartitionRecords

texts = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=3)
contents = st.tuples(st.integers(0, 2**45), texts, texts, headers, st.integers(0, 3))
codecs = st.sampled_from([0, 1, 2, 3, 4])


def reader() -> Any:
    """The class that a consumer unpacks partitions with, once it is `batched`."""
    consumer = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=BASE))
    assert batched(consumer)
    return consumer._fetcher.PartitionRecords


READER: Any = reader()


def batch(records: list[Any], codec: int, first: int = 0, magic: int = 2, **more: Any) -> bytes:
    """Bytes of a batch that has gaps in its offsets, as compaction leaves them."""
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20, offset=0 if magic == 2 else first, **more)
    for time, key, value, held, gap in records:
        builder.skip(gap)
        assert builder.append(time, key, value, held if magic == 2 else [])
    builder.close()
    data = bytes(builder.buffer())
    # As the broker does; no checksum covers it.
    return first.to_bytes(8, "big") + data[8:] if magic == 2 else data


def taken(kind: Any, data: bytes, first: int, most: int, **more: Any) -> list[Any]:
    """All polls of a partition, and where it stands after each."""
    part = kind(first, AT, MemoryRecords(data), check_crcs=True, **more)
    found = []
    while part:
        polled = part.take(most)
        found.append((list(polled), part.next_fetch_offset))
    return found


def one_by_one(polls: list[Any]) -> list[OneRecord]:
    """The records of all polls."""
    found = []
    for polled, _ in polls:
        if polled:
            found += list(columns(polled))
    return found


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.lists(contents, min_size=1, max_size=6), codecs), max_size=4),
    st.integers(0, 12),
    st.integers(1, 9),
)
def test_any_batches(given_: list[tuple[list[Any], int]], first: int, most: int) -> None:
    data, at = b"", 0
    for records, codec in given_:
        data += batch(records, codec, at)
        at += len(records) + sum(gap for *_, gap in records)
    ours = taken(READER, data, first, most)
    theirs = taken(BASE, data, first, most)
    assert one_by_one(ours) == one_by_one(theirs)
    assert ours[-1][1] == theirs[-1][1]
    for polled, position in ours:
        assert not polled or columns(polled).offsets[-1] < position


def test_a_poll_ends_with_the_batch_that_fills_it() -> None:
    ten: list[Any] = [(7, b"k", b"v", [], 0)] * 10
    data = b"".join(batch(ten, 0, first) for first in range(0, 100, 10))
    ours = taken(READER, data, 0, 25)
    assert [sum(len(each.value) for each in polled) for polled, _ in ours] == [30, 30, 30, 10]
    part = READER(0, AT, MemoryRecords(data))
    assert len(part.take(25)) == 30  # what the client counts


def test_records_of_the_old_format_come_one_by_one() -> None:
    old: list[Any] = [(7, b"k%d" % i, b"v", [], 0) for i in range(3)]
    data = batch(old, 0, 0, magic=1) + batch(old, 1, 3) + batch(old, 1, 6, magic=1)
    ours = taken(READER, data, 1, 100)
    assert one_by_one(ours) == one_by_one(taken(BASE, data, 1, 100))
    assert [each.offset for each in one_by_one(ours)] == list(range(1, 9))


def test_aborted_transactions_and_markers_are_left_out() -> None:
    few: list[Any] = [(7, b"k", b"v%d" % i, [], 0) for i in range(3)]
    aborted = {"transactional": True, "producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    data = b"".join(
        [
            batch(few, 0, 0),
            batch(few, 0, 3, **aborted),
            marker(6, producer=9, commit=False),
            batch(few, 0, 7, **aborted),
            marker(10, producer=9, commit=True),
        ]
    )
    more = {
        "isolation_level": 1,
        "aborted_transactions": [SimpleNamespace(producer_id=9, first_offset=3)],
    }
    for level, offsets in ((1, [0, 1, 2, 7, 8, 9]), (0, [0, 1, 2, 3, 4, 5, 7, 8, 9])):
        ours = taken(READER, data, 0, 100, **{**more, "isolation_level": level})
        theirs = taken(BASE, data, 0, 100, **{**more, "isolation_level": level})
        assert one_by_one(ours) == one_by_one(theirs)
        assert [each.offset for each in one_by_one(ours)] == offsets
        assert ours[-1][1] == theirs[-1][1] == 11


def marker(offset: int, *, producer: int, commit: bool) -> bytes:
    """A control batch that ends a transaction."""
    key = bytes([0, 0, 0, int(commit)])
    builder = DefaultRecordBatchBuilder(2, 0, True, producer, 0, -1, 1000)
    builder.append(0, 7, key, b"\0" * 6, [])
    data = bytearray(builder.build())
    data[0:8] = offset.to_bytes(8, "big")
    data[22] |= 0x20
    return recounted(data)


def recounted(data: bytearray) -> bytes:
    """The same, with the checksum that it should have."""
    from kafka.record.util import calc_crc32c

    data[17:21] = calc_crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    return bytes(data)


@settings(max_examples=400)
@given(st.lists(contents, min_size=1, max_size=4), st.data())
def test_bytes_that_are_no_records(records: list[Any], data: st.DataObject) -> None:
    spoilt = bytearray(batch(records, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(61, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    good = batch([(7, b"k", b"v", [], 0)], 0)
    whole = good + recounted(spoilt)
    ours, theirs = outcome(READER, whole), outcome(BASE, whole)
    assert ours == theirs


def outcome(kind: Any, data: bytes) -> Any:
    try:
        return one_by_one(taken(kind, data, 0, 100))
    except Exception:
        return "corrupt"


def test_what_is_good_comes_before_the_error() -> None:
    good = batch([(7, b"k", b"v", [], 0)] * 3, 0)
    bad = bytearray(batch([(7, b"k", b"v", [], 0)], 0, 3))
    bad[-3] ^= 0xFF
    for kind in (READER, BASE):
        part = kind(0, AT, MemoryRecords(good + bytes(bad)), check_crcs=True)
        assert len(part.take(100)) == 3
        assert part.next_fetch_offset == 3
        with pytest.raises(Exception, match="failed crc check"):
            part.take(100)


@given(st.binary(max_size=60), st.integers(0, 3))
def test_any_bytes_are_located_within_themselves(data: bytes, count: int) -> None:
    found = np.zeros((count, 8), np.int64)
    if locate(np.frombuffer(data, np.uint8), found):
        assert (found[:, 2:] <= len(data)).all()


def test_another_client_is_read_record_by_record(caplog: pytest.LogCaptureFixture) -> None:
    class Changed(BASE):  # type: ignore[misc]
        def take(self, n: int | None = None) -> Any:
            return super().take(n)[::-1]

    for kind in (None, object, Changed):
        consumer = SimpleNamespace(_fetcher=SimpleNamespace(PartitionRecords=kind))
        with caplog.at_level(logging.WARNING):
            assert not batched(consumer)
        assert consumer._fetcher.PartitionRecords is kind
    assert "is read record by record" in caplog.text


def test_columns() -> None:
    one = OneRecord("t", 3, 5, 7, b"k", None, (("h", b"x"),))
    two = OneRecord("t", 3, 6, 8, None, b"v", ())
    records = Records.of([one, two])
    assert list(records) == [one, two]
    assert records.some([1]) == Records("t", 3, [6], [8], [None], [b"v"], [()])
    assert Records.of([two]).headers is None
    assert Records.join([Records.of([one]), Records.of([two])]) == records
