"""The past of one stream in bounded memory: coarser steps, the further back they are."""

from typing import Any, NamedTuple

import numpy as np

from stream_leip.arrays import Matrix, Vector
from stream_leip_connectors.dashboard.records import Record

# Of one stream, at most; and steps, whatever their size.
MOST_BYTES = 1 << 21
MOST_STEPS, FEWEST_STEPS = 640, 16

_PRIOR, _LOW, _HIGH, _TRUTH = range(4)
_NUMBER, _END, _RECEIVED, _N, _MEMORY, _ALARM, _LIMIT, _CONFIDENT, _BUFFERED, _UPDATES = range(10)
_FIRST_ROWS = 16
_NAN = float("nan")


class Past(NamedTuple):
    """Columns of a stream's past, a line for each step, oldest first.

    Parameters
    ----------
    number, end
        Events past, and event time, NaN where there is none.
    received
        When it was read, by the clock that the caller has.
    prior, low, high, truth
        A column for each class; NaN where it is not known.
    n, memory, alarm, threshold, confident, buffered
        As updates have them.
    updates
        How many a step stands for.
    """

    number: Vector
    end: Vector
    received: Vector
    prior: Matrix
    low: Matrix
    high: Matrix
    truth: Matrix
    n: Vector
    memory: Vector
    alarm: Vector
    threshold: Vector
    confident: Vector
    buffered: Vector
    updates: Vector


class Steps:
    """Takes updates for ever, and holds a bounded number of steps.

    The first update and the newest, `exact` of them at least, are steps of their own. Further back
    a step stands for several neighbours: the newest of them, but with the hull of their intervals
    and the largest of their alarm values, so that no excursion is lost. Shares are held to seven
    digits.

    Parameters
    ----------
    classes
        How many.
    most_bytes
        Of memory; there are always some steps.

    Examples
    --------
    >>> import msgspec
    >>> from stream_leip_connectors.dashboard.records import Record
    >>> from stream_leip_connectors.dashboard.steps import Steps
    >>> steps = Steps(classes=2)
    >>> for number in range(1, 100_001):
    ...     record = Record(msgspec.Raw(b'["a","b"]'), prior=[0.5, 0.5], number=number)
    ...     steps.add(record, received=0.0)
    >>> past = steps.past()
    >>> len(past.number) < 640, past.number[[0, -1]].tolist(), int(past.updates.sum())
    (True, [1.0, 100000.0], 100000)
    """

    def __init__(self, classes: int, most_bytes: int = MOST_BYTES) -> None:
        row = classes * 4 * 4 + 10 * 8
        self.most = int(np.clip(most_bytes // row, FEWEST_STEPS, MOST_STEPS))
        self.exact = self.most // 4
        self._classes = classes
        self._length = 0
        self._shares = np.empty((0, 4, classes), np.float32)
        self._marks = np.empty((0, 10))

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Of memory held."""
        return self._shares.nbytes + self._marks.nbytes

    def add(self, record: Record, received: float) -> None:
        """Take the next update, which has a prior."""
        if self._length == len(self._marks):
            if self._length < self.most:
                self._grow()
            else:
                self._merge()
        i = self._length
        shares = self._shares[i]
        shares[_PRIOR] = record.prior
        shares[_LOW] = _NAN if record.low is None else record.low
        shares[_HIGH] = _NAN if record.high is None else record.high
        shares[_TRUTH] = _NAN if record.truth is None else record.truth
        alarm = record.alarm
        self._marks[i] = (
            record.place(),
            _NAN if record.end is None else record.end,
            received,
            record.n,
            record.n if record.memory is None else record.memory,
            _NAN if alarm is None or alarm.value is None else alarm.value,
            _NAN if alarm is None or alarm.threshold is None else alarm.threshold,
            _NAN if record.confident is None else sum(record.confident),
            _NAN if record.buffered is None else record.buffered,
            1.0,
        )
        self._length = i + 1

    def past(self) -> Past:
        """What is held, copied."""
        shares: Any = self._shares[: self._length].copy()  # float32: half of what is sent
        marks = self._marks[: self._length].T.copy()
        return Past(
            number=marks[_NUMBER],
            end=marks[_END],
            received=marks[_RECEIVED],
            prior=shares[:, _PRIOR],
            low=shares[:, _LOW],
            high=shares[:, _HIGH],
            truth=shares[:, _TRUTH],
            n=marks[_N],
            memory=marks[_MEMORY],
            alarm=marks[_ALARM],
            threshold=marks[_LIMIT],
            confident=marks[_CONFIDENT],
            buffered=marks[_BUFFERED],
            updates=marks[_UPDATES],
        )

    def _grow(self) -> None:
        rows = min(self.most, max(_FIRST_ROWS, 2 * self._length))
        shares = np.empty((rows, 4, self._classes), np.float32)
        marks = np.empty((rows, 10))
        shares[: self._length], marks[: self._length] = self._shares, self._marks
        self._shares, self._marks = shares, marks

    def _merge(self) -> None:
        """Make room: neighbours become one step."""
        starts = self._starts()
        ends = np.append(starts[1:], self._length) - 1
        shares, marks = self._shares[ends], self._marks[ends]
        shares[:, _LOW] = np.fmin.reduceat(self._shares[:, _LOW], starts)
        shares[:, _HIGH] = np.fmax.reduceat(self._shares[:, _HIGH], starts)
        marks[:, _ALARM] = np.fmax.reduceat(self._marks[:, _ALARM], starts)
        marks[:, _UPDATES] = np.add.reduceat(self._marks[:, _UPDATES], starts)
        self._length = len(starts)
        self._shares[: self._length], self._marks[: self._length] = shares, marks

    def _starts(self) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        """Where merged steps begin: the finest division that leaves a quarter free."""
        last = np.cumsum(self._marks[: self._length, _UPDATES]) - 1.0
        age = last[-1] - last
        exact = age < self.exact
        coarsest = 4.0 * _power_of_two(2.0 * (last[-1] + 1.0) / self.most)
        for octave in (64.0, 32.0, 16.0, 8.0, 4.0):
            # So many steps each time that the age doubles, until steps are as coarse as may be.
            size = np.minimum(_power_of_two(age / octave), coarsest)
            size[exact] = 1.0
            group = last // size
            new = (np.diff(size) != 0) | (np.diff(group) != 0)
            new[0] = True  # the first update stays what it was
            starts = np.flatnonzero(np.append(True, new))
            if len(starts) <= 0.75 * self.most:
                return starts
        return np.flatnonzero(exact | (np.arange(self._length) % 2 == 1) | (age == age[0]))


def _power_of_two(value: Vector | float) -> Vector:
    """The largest that is not above a value, and 1 at least."""
    return np.asarray(2.0 ** np.floor(np.log2(np.maximum(value, 1.0))))
