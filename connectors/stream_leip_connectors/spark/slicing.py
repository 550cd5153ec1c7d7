"""The first stage: a partition's events, checked, to slices for the buckets of their keys."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from stream_leip_connectors.spark.bucket import WHOLE
from stream_leip_connectors.spark.held import Held
from stream_leip_connectors.spark.profiles import Known
from stream_leip_connectors.spark.reading import Format, Reader, in_slices

# What a slice is in Spark: some events of one key, their times and rows as raw bytes.
SLICE = "bucket int, key string, start double, times binary, rows binary"
_ARROW = pa.schema(
    [
        ("bucket", pa.int32()),
        ("key", pa.string()),
        ("start", pa.float64()),
        ("times", pa.binary()),
        ("rows", pa.binary()),
    ]
)

Stage = Callable[[Iterator[Any]], Iterator[Any]]


def slicer(known: Known, format: Format, buckets: int, *, keyed: bool) -> Stage:
    """A function for mapInArrow: batches of (scores, micros, key) to slices.

    Bad events that have a key and a time go along as rows of NaN, to be counted.
    """

    def slices(batches: Iterator[Any]) -> Iterator[Any]:
        reader = Reader(known(), format)
        for batch in batches:
            if batch.num_rows:
                yield _sliced(batch, reader, buckets, keyed=keyed)

    return slices


def _sliced(batch: Any, reader: Reader, buckets: int, *, keyed: bool) -> Any:
    keys = batch.column("key") if keyed else None
    read = reader.read(batch.column("scores"), batch.column("micros"), keys)
    lines: list[tuple[int, str, float, bytes, bytes]] = []
    for key, which in in_slices(read):
        name = key if keyed else WHOLE
        times = read.times[which]
        lines.append(
            (
                zlib.crc32(name.encode()) % buckets,
                name,
                float(times.min()),
                times.tobytes(),
                read.rows[which].tobytes(),
            )
        )
    columns = zip(*lines, strict=True) if lines else [()] * len(_ARROW)
    arrays = [
        pa.array(list(column), each.type) for column, each in zip(columns, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def held_of(keys: list[str], times: list[bytes], rows: list[bytes], m: int) -> Held:
    """The events of some slices."""
    index: dict[str, int] = {}
    codes = np.array([index.setdefault(key, len(index)) for key in keys], np.int32)
    counts = [len(each) // 8 for each in times]
    return Held(
        list(index),
        np.repeat(codes, counts),
        np.frombuffer(b"".join(times), np.float64),
        np.frombuffer(b"".join(rows), np.float32).reshape(-1, m),
    )
