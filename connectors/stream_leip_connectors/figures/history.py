"""What figures draw: the updates of one or more monitors over time, with or without truth."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_leip.arrays import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Lane:
    """One stream of updates.

    Parameters
    ----------
    name
        Of the monitor, the key, or both.
    x
        Events past, or milliseconds since the epoch.
    prior, low, high
        A line for each update; None for bounds where none has any.
    memory
        Events that the estimate rests on.
    alarm, threshold
        The alarm's value and the one to reach, by update; None without.
    raised, warned
        Where on the x axis an alarm or a warning came up.
    check, flagged
        The newest assumption check, and how many updates it flagged.
    error_x, error
        Total variation from the true mix; None without truth.
    settings
        In words.
    updates
        How many there were, before thinning.
    confident, buffered
        Rows in LEIP's confident set, and in its low-confidence buffer; None where nobody counted.
    """

    name: str
    x: Vector
    prior: Matrix
    low: Matrix | None
    high: Matrix | None
    memory: Vector
    alarm: Vector | None
    threshold: Vector | None
    raised: tuple[float, ...]
    warned: tuple[float, ...]
    check: dict[str, Any] | None
    flagged: int
    error_x: Vector
    error: Vector | None
    settings: dict[str, str]
    updates: int
    confident: Vector | None = None
    buffered: Vector | None = None


@dataclass(frozen=True, eq=False)
class History:
    """All that a report draws.

    Parameters
    ----------
    title, sentences
        What happened, in words.
    classes, source
        Names, and the source prior where it is known.
    timed
        Whether x is a time, or counts events.
    lanes
        The streams.
    truth_x, truth
        The true mix over time; None where it is not known.
    changes
        True change points.
    accuracy_x, accuracy
        Accuracy over time, by what predictions were adapted with.
    cards, figures
        What to see first, each figure with what it is; and a table: a heading, then lines.
    settings
        How to make it again.
    notes
        What was left out, and why.
    """

    title: str
    sentences: tuple[str, ...]
    classes: tuple[str, ...]
    source: Vector | None
    timed: bool
    lanes: tuple[Lane, ...]
    truth_x: Vector = field(default_factory=lambda: np.empty(0))
    truth: Matrix | None = None
    changes: tuple[float, ...] = ()
    accuracy_x: Vector = field(default_factory=lambda: np.empty(0))
    accuracy: dict[str, Vector] = field(default_factory=dict)
    cards: tuple[tuple[str, str], ...] = ()
    figures: tuple[tuple[str, ...], ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def movers(self) -> list[int]:
        """Places of the classes, those that moved most first."""
        lines = [lane.prior for lane in self.lanes] if self.truth is None else [self.truth]
        home = [] if self.source is None else [self.source[None]]
        spans = [np.ptp(np.concatenate([line, *home]), axis=0) for line in lines if len(line)]
        if not spans:
            return list(range(len(self.classes)))
        return [int(j) for j in np.argsort(-np.max(spans, axis=0), kind="stable")]
