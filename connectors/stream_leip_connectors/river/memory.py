"""What a prior tracker remembers: as long as it tells, by a window, or until it is reverted."""

from typing import Any, Protocol

import numpy as np

from stream_leip import Adaptive, Estimator, InputError, Monitor
from stream_leip.arrays import Rows, Vector
from stream_leip.entrance import Batch
from stream_leip.profile import SourceProfile
from stream_leip.tracker import Tracker
from stream_leip.windows import Window
from stream_leip_connectors.river.choosing import choose_estimator, choose_window

_SMALLEST = 256


class Memory(Protocol):
    """Rows in, the class mix out."""

    # Whether the mix waits for a pane's end, so that rows of an open one need not be told.
    by_pane: bool

    def take(self, rows: Rows) -> None:
        """Take rows."""

    def revert(self, row: Rows) -> None:
        """Forget a row."""

    def prior(self) -> Vector:
        """The mix of what is remembered."""

    def snapshot(self) -> Any:
        """The state as plain values and bytes."""

    def restore(self, state: Any) -> None:
        """Take over the state that `snapshot` gave."""


def open_memory(
    profile: SourceProfile, window: Window | str | None, estimator: str | Estimator
) -> Memory:
    """A memory with nothing in it."""
    chosen = choose_estimator(estimator)
    if isinstance(window, str):
        if window != "all":
            raise InputError(f'window: {window!r} is unknown; use a window, "all", or None')
        return All(profile, chosen)
    window = choose_window(window)
    if isinstance(window, Adaptive):
        return AsLongAsItTells(profile, chosen)
    return ByWindow(profile, window, chosen)


class AsLongAsItTells:
    """Adaptive memory."""

    by_pane = True

    def __init__(self, profile: SourceProfile, estimator: Estimator) -> None:
        self._tracker = Tracker(profile, estimator)

    def take(self, rows: Rows) -> None:
        """Take the rows of panes."""
        self._tracker.follow(rows)

    def revert(self, row: Rows) -> None:
        """Nothing that was learnt can be taken back."""
        raise _no_revert(Adaptive())

    def prior(self) -> Vector:
        """The mix at the end of the last pane."""
        return self._tracker.prior

    def snapshot(self) -> Any:
        """The state as plain values and bytes."""
        return self._tracker.snapshot()

    def restore(self, state: Any) -> None:
        """Take over the state that `snapshot` gave."""
        self._tracker.restore(state)


class ByWindow:
    """The panes of a window."""

    by_pane = False

    def __init__(self, profile: SourceProfile, window: Window, estimator: Estimator) -> None:
        self._window, self._estimator = window, estimator
        self._monitor = Monitor(profile, window, estimator, level=None, check=False)

    def take(self, rows: Rows) -> None:
        """Take rows."""
        list(self._monitor.take(Batch(rows, None, np.arange(len(rows)), len(rows))))

    def revert(self, row: Rows) -> None:
        """The window says what goes."""
        raise _no_revert(self._window)

    def prior(self) -> Vector:
        """The mix of what is in the window now."""
        found = self._monitor.estimate().prior if self._monitor.events else None
        return self._monitor.profile.soft_prior if found is None else found

    def snapshot(self) -> Any:
        """The state in bytes."""
        return self._monitor.snapshot()

    def restore(self, state: Any) -> None:
        """Take over the state that `snapshot` gave."""
        self._monitor = Monitor.restore(
            state, self._monitor.profile, window=self._window, estimator=self._estimator
        )


class All:
    """All that was not reverted; whoever reverts says how much that is."""

    by_pane = False

    def __init__(self, profile: SourceProfile, estimator: Estimator) -> None:
        self._profile = profile
        self._estimator = estimator
        self._rows: Rows = np.empty((_SMALLEST, len(profile.classes)), np.float32)
        self._begin = 0
        self._end = 0

    def take(self, rows: Rows) -> None:
        """Take rows."""
        self._make_room(len(rows))
        self._rows[self._end : self._end + len(rows)] = rows
        self._end += len(rows)

    def _make_room(self, more: int) -> None:
        if self._end + more <= len(self._rows):
            return
        held = self._rows[self._begin : self._end]
        size = max(_SMALLEST, 2 * (len(held) + more))
        self._rows = np.empty((size, held.shape[1]), np.float32)
        self._rows[: len(held)] = held
        self._begin, self._end = 0, len(held)

    def revert(self, row: Rows) -> None:
        """Forget the oldest row that is equal to this one."""
        held = self._rows[self._begin : self._end]
        if len(held) and np.array_equal(held[0], row[0]):
            self._begin += 1
            return
        equal = np.flatnonzero((held == row).all(axis=1))
        if not len(equal):
            raise InputError(
                f"revert: this posterior is not among the {len(held)} that were updated; "
                "revert what was updated before"
            )
        held[equal[0] : -1] = held[equal[0] + 1 :].copy()
        self._end -= 1

    def prior(self) -> Vector:
        """The mix of all rows; the source's where there is none."""
        held = self._rows[self._begin : self._end]
        if not len(held):
            return self._profile.soft_prior
        return self._estimator.estimate(held, self._profile).prior

    def snapshot(self) -> Any:
        """The rows."""
        return self._rows[self._begin : self._end].copy()

    def restore(self, state: Any) -> None:
        """Take over the state that `snapshot` gave."""
        self.take(state)


def _no_revert(window: object) -> InputError:
    return InputError(
        f"revert: {window!r} forgets on its own and cannot be told to; make the tracker with "
        'window="all"'
    )
