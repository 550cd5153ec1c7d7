"""A batch of events of many keys, key by key."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Vector
from stream_leip.entrance import Batch


class Groups:
    """The good events of a batch, sorted by key once: what is left to do for a key is to slice.

    Parameters
    ----------
    names
        The key of each event.
    batch
        The events.
    """

    def __init__(self, names: list[str], batch: Batch) -> None:
        index: dict[str, int] = {}
        self._codes = np.array([index.setdefault(name, len(index)) for name in names], np.int64)
        self.keys = list(index)
        codes = self._codes[batch.places]
        # Numbers of 16 bits are sorted by radix.
        order = np.argsort(codes.astype(np.min_scalar_type(len(index))), kind="stable")
        self.rows = batch.rows[order]
        self.times = None if batch.times is None else batch.times[order]
        self.places = batch.places[order]
        sizes = np.bincount(codes, minlength=len(index))
        self._stops = np.cumsum(sizes)
        self._begins = self._stops - sizes
        self._bad = np.bincount(self._codes, minlength=len(index)) - sizes
        self._counting = np.arange(sizes.max(initial=0))
        # The key whose last good event came first goes first; before it, those with bad ones only.
        last = np.full(len(index), -1)
        last[sizes > 0] = order[self._stops[sizes > 0] - 1]
        self._turns = np.argsort(last, kind="stable")

    def __iter__(self) -> Iterator[tuple[str, int, int, int]]:
        """Each key, where its rows begin and stop, and how many bad events it has."""
        turns = self._turns
        keys = self.keys
        return zip(
            [keys[code] for code in turns.tolist()],
            self._begins[turns].tolist(),
            self._stops[turns].tolist(),
            self._bad[turns].tolist(),
            strict=True,
        )

    def latest(self, begin: int, stop: int) -> float | None:
        """The latest time of a key's events."""
        if self.times is None:
            return None
        return float(self.times[begin] if stop - begin == 1 else self.times[begin:stop].max())

    def times_of(self, begin: int, stop: int) -> Vector | None:
        """The times of a key's events."""
        return None if self.times is None else self.times[begin:stop]

    def batch(self, begin: int, stop: int, bad: int, skipped: int) -> Batch:
        """The events of one key, but for some bad ones before its first good one."""
        n = stop - begin
        local: NDArray[np.int64] = self._counting[:n]
        if bad:
            local = self._among_its_own(begin, stop) - skipped
        return Batch(self.rows[begin:stop], self.times_of(begin, stop), local, n + bad - skipped)

    def bad_before(self, begin: int) -> int:
        """How many bad events a key has before its first good one."""
        return int(self._among_its_own(begin, begin + 1)[0])

    def _among_its_own(self, begin: int, stop: int) -> NDArray[np.int64]:
        """Where rows of one key stand among all events of that key."""
        good = self.places[begin:stop]
        own = np.flatnonzero(self._codes == self._codes[good[0]])
        return np.searchsorted(own, good)
