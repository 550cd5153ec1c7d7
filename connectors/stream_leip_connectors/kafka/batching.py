"""Whole batches out of kafka-python's consumer.

Its poll() makes two objects of each record, in Python, and that is most of what reading costs. What
it does for a batch, checksum, codec, transactions and positions, it does well. So it is given
batches that seem to have a single record, whose value is all of them as columns.

This leans on parts of kafka-python that are not public: `batched` first tries it on a batch of its
own, and leaves the consumer as it is where the columns are not what the records are.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from stream_leip_connectors import extras
from stream_leip_connectors._kernels.batches import (
    HEADERS,
    HEADERS_STOP,
    KEY,
    KEY_STOP,
    OFFSET,
    TIME,
    VALUE,
    VALUE_STOP,
    locate,
)
from stream_leip_connectors.kafka.records import Records

log = logging.getLogger("stream_leip.kafka")

_Headers = tuple[tuple[str, bytes | None], ...]
# One header at least has two bytes behind the count.
_NO_HEADERS = b"\0"


def batched(consumer: Any) -> bool:
    """Have a new consumer's poll() give whole batches; False if it can only give records."""
    try:
        # What an upgrade changed may fail in any way.
        made = _partition_records(consumer._fetcher.PartitionRecords)
        _try_out(made, consumer._fetcher.PartitionRecords)
        consumer._fetcher.PartitionRecords = made
    except Exception as error:
        version = extras.kafka().__version__
        log.warning("kafka-python %s is read record by record, which is slower: %r", version, error)
        return False
    return True


def columns(polled: Sequence[Any]) -> Records:
    """What poll() gave of one partition, whole batches and records alike."""
    parts: list[Records] = []
    for whole, group in groupby(polled, lambda each: isinstance(each.value, Records)):
        found = list(group)
        parts += [each.value for each in found] if whole else [Records.of(found)]
    return Records.join(parts)


class _Whole(NamedTuple):
    """A batch in the place of a record."""

    value: Records
    offset: int
    size_in_bytes: int
    timestamp: int = -1
    timestamp_type: int = 0
    key: None = None
    headers: tuple[()] = ()
    checksum: None = None

    def validate_crc(self) -> bool:
        """Done for the batch."""
        return True


class _Batch:
    """A batch of kafka-python that has one record, or none."""

    def __init__(self, batch: Any, topic: str, partition: int, first: int) -> None:
        self._batch = batch
        self._topic = topic
        self._partition = partition
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __iter__(self) -> Iterator[Any]:
        batch = iter(self._batch)  # it is decompressed now
        data = bytes(memoryview(batch._buffer)[batch._pos :])
        found = np.empty((batch.records_count, 8), np.int64)
        if not locate(np.frombuffer(data, np.uint8), found):
            yield from batch  # what is wrong with it, it says itself
            return
        found[:, OFFSET] += batch.base_offset
        if batch.timestamp_type == batch.LOG_APPEND_TIME:
            found[:, TIME] = batch.max_timestamp
        else:
            found[:, TIME] += batch.first_timestamp
        # Brokers send whole batches, also to who begins within one.
        found = found[found[:, OFFSET] >= self._first]
        if len(found):
            records = _columns(self._topic, self._partition, data, found)
            yield _Whole(records, records.offsets[-1], len(data))


class _Batches:
    """Batches of kafka-python, each of which has one record, or none."""

    def __init__(self, records: Any, topic: str, partition: int, first: int) -> None:
        self._records = records
        self._where = topic, partition, first

    def next_batch(self) -> Any:
        """The next one; None if that was all."""
        batch = self._records.next_batch()
        if batch is None or batch.magic < 2 or batch.is_control_batch:
            return batch
        return _Batch(batch, *self._where)


class _Taken(list[Any]):
    """What was taken of a partition: poll() counts records, not batches."""

    records = 0

    def __len__(self) -> int:
        return self.records


def _partition_records(base: Any) -> Any:
    """The class that unpacks what was fetched of a partition, but for whole batches."""

    class PartitionRecords(base):  # type: ignore[misc]  # the client has no types
        def __init__(self, fetch_offset: int, tp: Any, records: Any, **more: Any) -> None:
            batches = _Batches(records, tp.topic, tp.partition, fetch_offset)
            super().__init__(fetch_offset, tp, batches, **more)

        def take(self, n: int | None = None) -> Any:
            taken = _Taken()
            while self.record_iterator is not None and (n is None or taken.records < n):
                try:
                    got = super().take(1)
                except Exception as error:
                    if not taken:
                        raise
                    # As in the base: what is good comes first, and then why there is no more.
                    self._next_inline_exception = error
                    break
                if not got:
                    break
                taken += got
                whole = isinstance(got[0].value, Records)
                taken.records += len(got[0].value) if whole else 1
            return taken

    return PartitionRecords


def _columns(topic: str, partition: int, data: bytes, found: np.ndarray[Any, Any]) -> Records:
    lines = found.T.tolist()
    headers = None
    if (found[:, HEADERS_STOP] - found[:, HEADERS]).max() > 1:
        # Mostly all records have the same ones.
        known: dict[bytes, _Headers] = {_NO_HEADERS: ()}
        headers = [
            known[raw] if raw in known else known.setdefault(raw, _headers(raw))
            for raw in [
                data[begin:stop]
                for begin, stop in zip(lines[HEADERS], lines[HEADERS_STOP], strict=True)
            ]
        ]
    return Records(
        topic,
        partition,
        lines[OFFSET],
        lines[TIME],
        _cut(data, lines[KEY], lines[KEY_STOP]),
        _cut(data, lines[VALUE], lines[VALUE_STOP]),
        headers,
    )


def _cut(data: bytes, begins: list[int], stops: list[int]) -> list[bytes | None]:
    return [
        data[begin:stop] if stop >= 0 else None for begin, stop in zip(begins, stops, strict=True)
    ]


def _headers(raw: bytes) -> _Headers:
    """Headers of a record, from their bytes."""
    decode_varint = extras.kafka("kafka.record.util").decode_varint
    count, place = decode_varint(raw, 0)
    found: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, place = decode_varint(raw, place)
        name = raw[place : place + length].decode()
        place += length
        length, place = decode_varint(raw, place)
        found.append((name, raw[place : place + length] if length >= 0 else None))
        place += max(length, 0)
    return tuple(found)


def _try_out(made: Any, base: Any) -> None:
    """Read a batch both ways; an error if that is not the same."""
    memory = extras.kafka("kafka.record.memory_records")
    at = extras.kafka().TopicPartition("try", 3)
    builder = memory.MemoryRecordsBuilder(2, 1, 1 << 16)
    for number in range(5):
        key = None if number == 1 else b"k%d" % number
        builder.append(1_700_000_000_000 + number, key, b"v" * number, [("h", b"x")] * number)
    builder.append(1_700_000_000_009, b"gone", None, [("n", None)])
    builder.close()

    def read(kind: Any) -> list[Any]:
        part = kind(2, at, memory.MemoryRecords(builder.buffer()), check_crcs=True)
        polled = [*part.take(1), *part.take(100)]
        return [polled, part.next_fetch_offset, bool(part)]

    (ours, *mine), (theirs, *its) = read(made), read(base)
    if columns(ours) != Records.of(theirs) or mine != its or len(theirs) != 4:
        raise AssertionError("a batch of its own came out otherwise")
