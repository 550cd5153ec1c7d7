"""Updates gathered into the lines of a report: from a replay, or from a file of JSON lines."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stream_leip import InputError
from stream_leip.arrays import Matrix, Vector
from stream_leip.replay import ReplayResult
from stream_leip_connectors.figures.history import History, Lane
from stream_leip_connectors.report import words

# Streams that a report shows, and streams that are followed while a file is read.
MOST_LANES, MOST_FOLLOWED = 8, 200
# Points of a line, and numbers of one stream in a page: beyond, lines get coarser.
MOST_POINTS, MOST_NUMBERS = 500, 60_000


class Record(msgspec.Struct):
    """What a report wants of an update; other fields pass unread."""

    classes: list[str]
    prior: list[float] | None = None
    weights: list[float | None] | None = None
    low: list[float] | None = None
    high: list[float] | None = None
    truth: list[float] | None = None
    last: int | None = None
    end: float | None = None
    number: int | None = None
    n: int = 0
    memory: float | None = None
    confident: list[float] | None = None
    buffered: float | None = None
    alarm: dict[str, Any] | None = None
    check: dict[str, Any] | None = None
    key: str | None = None
    monitor: str | None = None

    def __post_init__(self) -> None:
        m = len(self.classes)
        if m < 2:
            raise ValueError(f"{m} classes")
        for name in ("prior", "weights", "low", "high", "truth", "confident"):
            values = getattr(self, name)
            if values is not None and len(values) != m:
                raise ValueError(f"{name}: {len(values)} entries for {m} classes")


class Gathered:
    """The updates of one stream, every second one dropped whenever they are too many."""

    def __init__(self, name: str, classes: int) -> None:
        self.name = name
        self.updates = 0
        self._most = max(50, min(MOST_POINTS, MOST_NUMBERS // classes))
        self._kept: list[Record] = []
        self._step = 1
        self._last: Record | None = None
        self._onsets: dict[str, list[Record]] = {"raised": [], "warning": []}
        self._up = dict.fromkeys(self._onsets, False)
        self._check: dict[str, Any] | None = None
        self._flagged = 0

    def add(self, record: Record) -> None:
        """Take the next update; one with nothing in scope has only its alarm looked at."""
        for name, onsets in self._onsets.items():
            up = bool((record.alarm or {}).get(name))
            if up and not self._up[name] and len(onsets) < MOST_POINTS:
                onsets.append(record)
            self._up[name] = up
        if record.check is not None:
            self._check = record.check
            self._flagged += bool(record.check.get("flagged"))
        if record.prior is None:
            return
        if self.updates % self._step == 0:
            if len(self._kept) == self._most:
                self._kept, self._step = self._kept[::2], 2 * self._step
            if self.updates % self._step == 0:
                self._kept.append(record)
        self._last = record
        self.updates += 1

    @property
    def first(self) -> Record | None:
        """The first update with something in scope."""
        return self._kept[0] if self._kept else None

    @property
    def records(self) -> list[Record]:
        """Those kept, and the last."""
        if self._last is None or self._last is self._kept[-1]:
            return self._kept
        return [*self._kept, self._last]

    def lane(
        self,
        timed: bool,
        settings: dict[str, str] | None = None,
        error: tuple[Vector, Vector] | None = None,
    ) -> Lane:
        """The lines of the stream."""
        records = self.records
        x = np.array([_place(each, timed) for each in records])
        prior = np.array([each.prior for each in records], float)
        low, high = (_bounds([getattr(r, name) for r in records]) for name in ("low", "high"))
        alarms = [each.alarm or {} for each in records]
        values = _numbers([each.get("value") for each in alarms])
        limits = _numbers([each.get("threshold") for each in alarms])
        counted = [each for each in records if each.buffered is not None and each.confident]
        if error is None and all(each.truth is not None for each in records):
            truth = np.array([each.truth for each in records], float)
            error = (x, 0.5 * np.abs(prior - truth).sum(axis=1))
        return Lane(
            name=self.name,
            x=x,
            prior=prior,
            low=low,
            high=high,
            memory=_numbers([each.n if each.memory is None else each.memory for each in records]),
            alarm=None if np.isnan(values).all() else values,
            threshold=None if np.isnan(limits).all() else limits,
            raised=tuple(_place(each, timed) for each in self._onsets["raised"]),
            warned=tuple(_place(each, timed) for each in self._onsets["warning"]),
            check=self._check,
            flagged=self._flagged,
            error_x=x if error is None else error[0],
            error=None if error is None else error[1],
            settings=settings or {},
            updates=self.updates,
            confident=_sums([each.confident for each in records]) if counted else None,
            buffered=_numbers([each.buffered for each in records]) if counted else None,
        )


def from_result(result: ReplayResult, title: str = "Replay of a drift") -> History:
    """The history of a replay."""
    m = len(result.classes)
    lanes: list[Lane] = []
    for name, track in result.tracks.items():
        streams = gather((_record(each) for each in result.records(name)), m)
        # The errors of a keyed monitor are over all keys: those of a key are in its updates.
        errors = (result.stretches, track.errors.over_time) if len(streams) == 1 else None
        lanes += [stream.lane(False, track.settings, errors) for stream in streams]
    step = max(1, len(result.stretches) * m // MOST_NUMBERS)
    return History(
        title=title,
        sentences=words.of_replay(result),
        classes=result.classes,
        source=result.source,
        timed=False,
        lanes=tuple(lanes[:MOST_LANES]),
        truth_x=result.stretches[::step],
        truth=result.truth[::step],
        changes=tuple(float(change) for change in result.changes),
        accuracy_x=result.stretches,
        accuracy={
            "unadapted": result.unadapted.over_time,
            **{f"adapted by {name}": t.adapted.over_time for name, t in result.tracks.items()},
            "with the true mix": result.with_truth.over_time,
        },
        cards=words.cards(result),
        figures=words.figures(result),
        settings={"events": str(result.n), "seed": str(result.seed), **result.settings},
        notes=words.of_counts(result.counts),
    )


def read_updates(path: Path, title: str | None = None) -> History:
    """The history in a file of updates as JSON lines; lines that are none are counted.

    Raises
    ------
    InputError
        If the file cannot be read, or no line of it is an update.
    """
    decode = msgspec.json.Decoder(Record).decode
    streams: dict[tuple[str | None, str | None], Gathered] = {}
    classes: list[str] | None = None
    first_bad = ""
    bad = lines = untold = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                lines += 1
                try:
                    record = decode(line)
                    if classes is not None and record.classes != classes:
                        raise ValueError("its classes are not those of the first update")
                except (ValueError, RecursionError) as error:
                    first_bad = first_bad or f"line {number}: {error}"
                    bad += 1
                    continue
                classes = record.classes
                name = (record.monitor, record.key)
                if name not in streams:
                    if len(streams) == MOST_FOLLOWED:
                        untold += 1
                        continue
                    streams[name] = Gathered(_name(record), len(classes))
                streams[name].add(record)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    found = sorted((s for s in streams.values() if s.updates), key=lambda s: -s.updates)
    if classes is None or not found:
        why = f"; {first_bad}" if bad else ""
        raise InputError(f"{path}: no update with a prior in {lines} lines{why}")
    shown = found[:MOST_LANES]
    timed = all(r.end is not None and r.number is None for s in shown for r in s.records)
    lanes = tuple(stream.lane(timed) for stream in shown)
    truth_x, truth = _truth(shown, timed)
    return History(
        title=path.name if title is None else title,
        sentences=words.of_updates(tuple(classes), lanes, len(found)),
        classes=tuple(classes),
        source=_source(shown[0].records),
        timed=timed,
        lanes=lanes,
        truth_x=truth_x,
        truth=truth,
        settings={"file": path.name},
        notes=words.of_file(lines, bad, first_bad, len(found), len(shown), untold),
    )


def gather(records: Iterable[Record], classes: int) -> list[Gathered]:
    """The streams among some updates."""
    streams: dict[tuple[str | None, str | None], Gathered] = {}
    for record in records:
        name = (record.monitor, record.key)
        if name not in streams:
            streams[name] = Gathered(_name(record), classes)
        streams[name].add(record)
    return [stream for stream in streams.values() if stream.updates]


def _record(plain: dict[str, Any]) -> Record:
    return msgspec.convert(plain, Record)


def _name(record: Record) -> str:
    return " · ".join(part for part in (record.monitor, record.key) if part) or "estimate"


def _place(record: Record, timed: bool) -> float:
    if timed and record.end is not None:
        return 1000.0 * record.end
    if record.number is not None:
        return float(record.number)
    return float(record.n if record.last is None else record.last + 1)


def _bounds(lines: Sequence[list[float] | None]) -> Matrix | None:
    known = next((line for line in lines if line is not None), None)
    if known is None:
        return None
    return np.array([[np.nan] * len(known) if line is None else line for line in lines], float)


def _numbers(values: Sequence[Any]) -> Vector:
    plain = [
        float(v) if isinstance(v, int | float) and not isinstance(v, bool) else np.nan
        for v in values
    ]
    return np.array(plain, float)


def _sums(lines: Sequence[list[float] | None]) -> Vector:
    return np.array([np.nan if line is None else sum(line) for line in lines])


def _truth(streams: Sequence[Gathered], timed: bool) -> tuple[Vector, Matrix | None]:
    """The true mix, of the stream that knows most of it."""
    known = [[each for each in s.records if each.truth is not None] for s in streams]
    most = max(known, key=len)
    if not most:
        return np.empty(0), None
    x = np.array([_place(each, timed) for each in most])
    return x, np.array([each.truth for each in most], float)


def _source(records: Sequence[Record]) -> Vector | None:
    """The source prior, from an update whose every share and weight is above zero."""
    for each in records:
        if each.weights is not None and each.prior is not None:
            weights = np.array([0.0 if w is None else w for w in each.weights])
            prior = np.array(each.prior)
            if (weights > 0).all() and (prior > 0).all():
                return np.asarray(prior / weights)
    return None
