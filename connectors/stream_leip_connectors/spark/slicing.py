"""The first stage: a partition's events, checked, to slices for the buckets of their keys."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from stream_leip_connectors.spark.bucket import WHOLE
from stream_leip_connectors.spark.held import Held
from stream_leip_connectors.spark.profiles import Known
from stream_leip_connectors.spark.reading import Format, Reader

# What a slice is in Spark: events of one bucket, and the earliest of their times.
SLICE = "bucket int, start double, held binary"
_ARROW = pa.schema([("bucket", pa.int32()), ("start", pa.float64()), ("held", pa.binary())])

Stage = Callable[[Iterator[Any]], Iterator[Any]]


def slicer(known: Known, format: Format, buckets: int, *, keyed: bool) -> Stage:
    """A function for mapInArrow: batches of (scores, micros, key) to slices.

    Bad events that have a key and a time go along as rows of NaN, to be counted.
    """

    def slices(batches: Iterator[Any]) -> Iterator[Any]:
        reader = Reader(known(), format)
        for batch in batches:
            if batch.num_rows:
                yield _encoded(_sliced(batch, reader, buckets, keyed=keyed))

    return slices


def _sliced(batch: Any, reader: Reader, buckets: int, *, keyed: bool) -> Iterator[tuple[int, Held]]:
    """Each bucket that has events, and these."""
    keys = batch.column("key") if keyed else None
    read = reader.read(batch.column("scores"), batch.column("micros"), keys)
    names = read.names if keyed else [WHOLE]
    usable = np.flatnonzero((read.codes >= 0) & ~np.isnan(read.times))
    own = np.array([zlib.crc32(name.encode()) % buckets for name in names], np.int64)
    numbers = own[read.codes[usable]]
    order = np.argsort(numbers, kind="stable")
    cuts = np.flatnonzero(np.diff(numbers[order])) + 1
    held = Held(names, read.codes.astype(np.int32), read.times, read.rows)
    for which in np.split(usable[order], cuts):
        if len(which):
            yield int(own[read.codes[which[0]]]), held.some(which).compact()


def _encoded(slices: Iterator[tuple[int, Held]]) -> Any:
    lines = [(bucket, float(held.times.min()), held.to_bytes()) for bucket, held in slices]
    columns = zip(*lines, strict=True) if lines else [()] * len(_ARROW)
    arrays = [
        pa.array(list(column), each.type) for column, each in zip(columns, _ARROW, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
