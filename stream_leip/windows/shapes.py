"""Tumbling, sliding and fading windows: what a user asks for."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np

from stream_leip.errors import InputError
from stream_leip.times import span_seconds
from stream_leip.windows.count import CountState
from stream_leip.windows.retention import Retention
from stream_leip.windows.state import Layout, WindowState
from stream_leip.windows.time import TimeState


class Window(Protocol):
    """The policy that says which panes are in scope now."""

    @property
    def needs_time(self) -> bool:
        """Whether every event must have a time."""

    def open(self, layout: Layout) -> WindowState:
        """A state with nothing in it."""


@dataclass(frozen=True)
class Tumbling:
    """Windows one after the other, of a number of events or a stretch of event time.

    Parameters
    ----------
    count
        Events in a window.
    seconds
        Length of a window in event time; windows align to the epoch. Or a timedelta.
    lateness
        By how many seconds an event may come after a later one and still count.
    emit_empty
        Whether a window with no events gives an update that says so, or none.

    Examples
    --------
    >>> from stream_leip import Tumbling
    >>> Tumbling(count=1000)
    Tumbling(count=1000, seconds=None, lateness=0.0, emit_empty=False)
    """

    count: int | None = None
    seconds: float | timedelta | None = None
    lateness: float | timedelta = 0.0
    emit_empty: bool = False

    def __post_init__(self) -> None:
        self.open(Layout(2))

    @property
    def needs_time(self) -> bool:
        """Whether every event must have a time."""
        return self.seconds is not None

    def open(self, layout: Layout) -> WindowState:
        """A state with nothing in it."""
        retention = Retention(1, None)
        if _by_count(self.count, self.seconds):
            every = _whole("count", self.count)
            return CountState(layout, every, retention)
        assert self.seconds is not None
        return TimeState(
            layout,
            span_seconds("seconds", self.seconds),
            span_seconds("lateness", self.lateness, zero=True),
            retention,
            emit_empty=self.emit_empty,
        )


@dataclass(frozen=True)
class Sliding:
    """Windows that overlap: the last `count` events, or `seconds`, anew at each step.

    Parameters
    ----------
    count
        Events in a window; until that many came, as many as there are.
    seconds
        Length of a window in event time. Or a timedelta.
    every
        The step, in events or in seconds; the window's length is a multiple of it. About a tenth
        of the window unless given.
    lateness
        By how many seconds an event may come after a later one and still count.
    emit_empty
        Whether a window with no events gives an update that says so, or none.

    Examples
    --------
    >>> from stream_leip import Sliding
    >>> Sliding(count=1000, every=100)
    Sliding(count=1000, seconds=None, every=100, lateness=0.0, emit_empty=False)
    """

    count: int | None = None
    seconds: float | timedelta | None = None
    every: float | timedelta | None = None
    lateness: float | timedelta = 0.0
    emit_empty: bool = False

    def __post_init__(self) -> None:
        self.open(Layout(2))

    @property
    def needs_time(self) -> bool:
        """Whether every event must have a time."""
        return self.seconds is not None

    def open(self, layout: Layout) -> WindowState:
        """A state with nothing in it."""
        if _by_count(self.count, self.seconds):
            count = _whole("count", self.count)
            every = _whole("every", _tenth(count) if self.every is None else self.every)
            return CountState(layout, every, Retention(_panes(count, every), None))
        assert self.seconds is not None
        seconds = span_seconds("seconds", self.seconds)
        step = seconds / 10 if self.every is None else span_seconds("every", self.every)
        return TimeState(
            layout,
            step,
            span_seconds("lateness", self.lateness, zero=True),
            Retention(_panes(seconds, step), None),
            emit_empty=self.emit_empty,
        )


@dataclass(frozen=True)
class Fading:
    """All that came, each pane with a weight that halves as it ages.

    Parameters
    ----------
    half_life
        After how many events, or after what timedelta, a weight halves. Panes under 2⁻²⁰ go.
    every
        How often an update comes, and the length of the panes that age as one: events, or a
        timedelta as `half_life` is. A tenth of the half-life unless given.
    lateness
        By how many seconds an event may come after a later one and still count.

    Examples
    --------
    >>> from datetime import timedelta
    >>> from stream_leip import Fading
    >>> Fading(half_life=timedelta(hours=1), every=timedelta(minutes=5)).lateness
    0.0
    """

    half_life: int | timedelta
    every: int | timedelta | None = None
    lateness: float | timedelta = 0.0

    def __post_init__(self) -> None:
        self.open(Layout(2))

    @property
    def needs_time(self) -> bool:
        """Whether every event must have a time."""
        return isinstance(self.half_life, timedelta)

    def open(self, layout: Layout) -> WindowState:
        """A state with nothing in it."""
        if isinstance(self.half_life, timedelta):
            life = span_seconds("half_life", self.half_life)
            if not isinstance(self.every, timedelta | None):
                raise InputError(f"every: {self.every!r}; use a timedelta, as half_life is one")
            step = life / 10 if self.every is None else span_seconds("every", self.every)
            return TimeState(
                layout,
                step,
                span_seconds("lateness", self.lateness, zero=True),
                Retention(None, life / step),
                emit_empty=False,
            )
        life = _whole("half_life", self.half_life)
        every = _whole("every", max(1, life // 10) if self.every is None else self.every)
        return CountState(layout, every, Retention(None, life / every))


def _by_count(count: object, seconds: object) -> bool:
    if (count is None) == (seconds is None):
        given = "neither is given" if count is None else f"both are: {count!r} and {seconds!r}"
        raise InputError(f"count, seconds: {given}; give one of them")
    return count is not None


def _tenth(count: int) -> int:
    """About a tenth of a window, that divides it."""
    return next(step for step in range(max(1, count // 10), 0, -1) if count % step == 0)


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name}: {value!r}; use a whole number of events, at least 1")
    return int(value)


def _panes(length: float, every: float) -> int:
    panes = round(length / every)
    if panes < 1 or abs(panes * every - length) > 1e-9 * length:
        raise InputError(
            f"every: {every!r} does not divide the window's {length!r}; "
            f"use a step that does, such as {length / max(panes, 1):g}"
        )
    return panes
