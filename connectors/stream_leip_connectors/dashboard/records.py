"""What the dashboard wants of an update's JSON; other fields pass unread."""

import math
from typing import Any

import msgspec
import numpy as np

from stream_leip.arrays import Vector

# Rounding may leave a share this far outside of 0 to 1, as docs/update.schema.json allows.
_SLACK = 1e-6
# Lists of classes that are remembered by their bytes; a stream has one for years.
_MOST_LISTS = 1000


class Alarm(msgspec.Struct):
    """Of `alarm`."""

    value: float | None = None
    threshold: float | None = None
    warning: bool = False
    raised: bool = False
    since: int | None = None
    classes: list[Any] = []


class Check(msgspec.Struct):
    """Of `check`."""

    p: float | None = None
    flagged: bool = False
    message: str | None = None


class Record(msgspec.Struct):
    """An update. Classes are names only once asked for: they are the same in every line."""

    classes: msgspec.Raw
    schema: int = 1
    sequence: int | None = None
    prior: list[float] | None = None
    low: list[float] | None = None
    high: list[float] | None = None
    truth: list[float] | None = None
    weights: list[float | None] | None = None
    confident: list[float] | None = None
    buffered: float | None = None
    last: int | None = None
    end: float | None = None
    number: int | None = None
    n: int = 0
    memory: float | None = None
    changed_at: int | None = None
    alarm: Alarm | None = None
    check: Check | None = None
    estimator: str = ""
    reason: str = ""
    threshold: float | None = None
    bad: int = 0
    late: int = 0
    thinned: int = 0
    key: str | None = None
    monitor: str | None = None

    def place(self) -> float:
        """How many events were past."""
        if self.number is not None:
            return float(self.number)
        return float(self.n if self.last is None else self.last + 1)

    def source(self) -> Vector | None:
        """The source prior, if every share and weight is above zero."""
        if self.prior is None or self.weights is None:
            return None
        weights = np.array([0.0 if each is None else each for each in self.weights])
        prior = np.array(self.prior)
        if not ((weights > 0).all() and (prior > 0).all()):
            return None
        return np.asarray(prior / weights)


class Decoder:
    """Turns lines into records, and refuses what is no update."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Record).decode
        self._names = msgspec.json.Decoder(tuple[str, ...]).decode
        self._known: dict[bytes, tuple[str, ...]] = {}

    def decode(self, line: bytes) -> tuple[Record, tuple[str, ...]]:
        """An update and its classes; ValueError, with the reason, if it is none."""
        record = self._decode(line)
        if record.schema != 1:
            raise ValueError(f"schema {record.schema}; this version reads 1")
        written = bytes(record.classes)
        classes = self._known.get(written)
        if classes is None:
            classes = self._classes(written)
        _check(record, len(classes))
        return record, classes

    def _classes(self, written: bytes) -> tuple[str, ...]:
        classes = self._names(written)
        if len(set(classes)) != len(classes) or len(classes) < 2:
            raise ValueError(f"classes: {len(set(classes))} different names of {len(classes)}")
        if len(self._known) == _MOST_LISTS:
            self._known.clear()
        self._known[written] = classes
        return classes


def _check(record: Record, m: int) -> None:
    for name in ("prior", "low", "high", "truth"):
        shares = getattr(record, name)
        if shares is not None:
            if len(shares) != m:
                raise ValueError(f"{name}: {len(shares)} entries for {m} classes")
            if not (min(shares) >= -_SLACK and max(shares) <= 1.0 + _SLACK):
                raise ValueError(f"{name}: not all between 0 and 1")
    for name in ("weights", "confident"):
        amounts = getattr(record, name)
        if amounts is not None and len(amounts) != m:
            raise ValueError(f"{name}: {len(amounts)} entries for {m} classes")
    alarm = record.alarm
    loose: tuple[float | None, ...] = (record.end, record.memory, record.buffered, record.threshold)
    if alarm is not None:
        loose += (alarm.value, alarm.threshold)
    if not all(each is None or math.isfinite(each) for each in loose):
        raise ValueError("a number that is not finite")
