"""Events for Spark, and what a KeyedMonitor makes of the same ones."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from stream_leip import KeyedMonitor
from tests.streams import PROFILE

Update = dict[str, Any]


class Events(NamedTuple):
    keys: NDArray[Any]
    scores: NDArray[np.float64]
    micros: NDArray[np.int64]

    def some(self, which: Any) -> "Events":
        return Events(self.keys[which], self.scores[which], self.micros[which])

    @property
    def times(self) -> NDArray[np.float64]:
        return self.micros / 1e6


def draw(seed: int, events: int, keys: int = 6, seconds: float = 60.0) -> Events:
    """Events in the order of their times, no two of the same time."""
    rng = np.random.default_rng(seed)
    micros = 1_700_000_000_000_000 + np.sort(rng.choice(int(seconds * 1e6), events, replace=False))
    scores = rng.dirichlet(np.full(3, 0.5), events)
    names = np.array([f"shop-{number}" for number in rng.integers(keys, size=events)])
    return Events(names, scores, micros)


def table(events: Events) -> Any:
    flat = pa.array(events.scores.ravel())
    lists = pa.ListArray.from_arrays(np.arange(0, events.scores.size + 1, 3, dtype=np.int32), flat)
    times = pa.array(events.micros, pa.timestamp("us", tz="UTC"))
    return pa.table({"key": events.keys, "scores": lists, "time": times})


SCHEMA = "key string, scores array<double>, time timestamp"


def write(events: Events, folder: Path, files: int, first: int = 0) -> None:
    """Some files, in the order of their numbers, which is that of their modification."""
    folder.mkdir(exist_ok=True)
    for number, which in enumerate(np.array_split(np.arange(len(events.keys)), files), first):
        hidden = folder / f".{number:03}"
        pa.parquet.write_table(table(events.some(which)), hidden)
        hidden.rename(folder / f"{number:03}.parquet")


def expected(events: Events, window: Any, until: float | None, **options: Any) -> list[Update]:
    """The updates of a KeyedMonitor that takes the events in order, and then so much time.

    Windows that end later than that are those that still wait on Spark.
    """
    keyed = KeyedMonitor(PROFILE, window, **options)
    updates = keyed.update_many(events.keys.tolist(), events.scores, events.times)
    if until is not None:
        updates += keyed.advance(until)
        updates = [update for update in updates if update.end is None or update.end <= until]
    return in_order([update.to_dict() for update in updates])


def found(df: Any) -> list[Update]:
    """The updates of a DataFrame, as they are on the wire."""
    from stream_leip_connectors.spark import to_wire

    return in_order([msgspec.json.decode(row["value"]) for row in to_wire(df).collect()])


def in_order(updates: list[Update]) -> list[Update]:
    return sorted(updates, key=lambda update: (update["key"] or "", update["sequence"]))


def differences(ours: list[Update], wanted: list[Update]) -> list[str]:
    """Where updates are not the same: key, sequence, field and both values."""
    mine = {(update["key"], update["sequence"]): update for update in ours}
    theirs = {(update["key"], update["sequence"]): update for update in wanted}
    odd = [f"{each}: only in one of both" for each in sorted(mine.keys() ^ theirs.keys(), key=str)]
    if len(mine) < len(ours):
        odd.append(f"{len(ours) - len(mine)} updates came twice")
    for each in sorted(mine.keys() & theirs.keys(), key=str):
        for name, value in theirs[each].items():
            if value != mine[each][name]:
                odd.append(f"{each} {name}: {mine[each][name]} is not {value}")
    return odd
