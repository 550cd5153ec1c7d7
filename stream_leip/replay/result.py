"""What a replay found: scores, and series that a report or a table can draw."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from stream_leip.arrays import Matrix, Vector
from stream_leip.update import Update


@dataclass(frozen=True, eq=False)
class Predictions:
    """How well labels were predicted.

    Parameters
    ----------
    accuracy, macro_recall, log_loss
        Over all good events; the recall is the mean over the classes that came.
    over_time
        Accuracy in each stretch of the stream; NaN where no event was.
    """

    accuracy: float
    macro_recall: float
    log_loss: float
    over_time: Vector


@dataclass(frozen=True, eq=False)
class Errors:
    """How far estimates were from the true mix.

    Parameters
    ----------
    total_variation, l1, weights_mse
        Of updates, against the mix when they came; means over the updates.
    standing
        Mean total variation of the estimate that stood when each event came.
    over_time
        The same in each stretch of the stream.
    coverage, width
        The share of intervals that held the true share, and their mean width; None without
        intervals.
    """

    total_variation: float
    l1: float
    weights_mse: float
    standing: float
    over_time: Vector
    coverage: float | None
    width: float | None


@dataclass(frozen=True)
class Alarms:
    """When a monitor raised its alarm.

    Parameters
    ----------
    raised, warned
        How many events were past when an alarm, or a warning, came up.
    false
        How many alarms came though the mix had not moved since the one before.
    delays
        For each true change point how many events passed until an alarm; None if none came before
        the next change.
    """

    raised: tuple[int, ...]
    warned: tuple[int, ...]
    false: int
    delays: tuple[int | None, ...]


class Point(NamedTuple):
    """An update in its place: how many events were past, and the true mix then."""

    number: int
    update: Update
    truth: Vector


@dataclass(frozen=True, eq=False)
class Track:
    """What one monitor did.

    Parameters
    ----------
    name, settings
        Its name, and its window and estimator in words.
    updates
        How many it gave.
    points
        Some of them, evenly, and the last.
    errors, alarms
        How good they were; None for alarms if it has none.
    adapted
        Predictions adapted with its estimates.
    """

    name: str
    settings: dict[str, str]
    updates: int
    points: tuple[Point, ...]
    errors: Errors
    alarms: Alarms | None
    adapted: Predictions


@dataclass(frozen=True, eq=False)
class ReplayResult:
    """What a replay found. Made by `replay`.

    Parameters
    ----------
    classes, source
        Of the profile.
    n, seed, settings
        How to run it again.
    counts
        Events that arrived, and how many of them were delayed, late, duplicate and bad.
    changes
        True change points.
    stretches, truth
        The first event number of each stretch that `over_time` has an entry for, and the true mix
        there.
    unadapted, with_truth
        Predictions as they came, and adapted by one who knows the true mix.
    tracks
        One for each monitor, by name.
    """

    classes: tuple[str, ...]
    source: Vector
    n: int
    seed: int
    settings: dict[str, str]
    counts: dict[str, int]
    changes: tuple[int, ...]
    stretches: Vector
    truth: Matrix
    unadapted: Predictions
    with_truth: Predictions
    tracks: dict[str, Track]

    def records(self, monitor: str | None = None) -> Iterator[dict[str, Any]]:
        """The kept updates, of one monitor or of all, as JSON values with the truth beside."""
        for name, track in self.tracks.items():
            if monitor in (None, name):
                for point in track.points:
                    yield to_record(name, point)

    def to_dict(self) -> dict[str, Any]:
        """All but the updates as JSON values."""
        plain = {
            "classes": list(self.classes),
            "source": self.source,
            "n": self.n,
            "seed": self.seed,
            "settings": self.settings,
            "counts": self.counts,
            "changes": list(self.changes),
            "stretches": self.stretches,
            "truth": self.truth,
            "unadapted": asdict(self.unadapted),
            "with_truth": asdict(self.with_truth),
            "monitors": {
                name: {
                    "settings": track.settings,
                    "updates": track.updates,
                    "errors": asdict(track.errors),
                    "alarms": None if track.alarms is None else asdict(track.alarms),
                    "adapted": asdict(track.adapted),
                }
                for name, track in self.tracks.items()
            },
        }
        found: dict[str, Any] = _plain(plain)
        return found

    def __str__(self) -> str:
        width = max(len("with the true mix"), *map(len, self.tracks))
        lines = [
            f"{'':{width}}  error  standing  coverage  accuracy  recall  log loss",
            f"{'unadapted':{width}}  {'':25}{_figures(self.unadapted)}",
        ]
        for name, track in self.tracks.items():
            errors = track.errors
            coverage = "" if errors.coverage is None else f"{errors.coverage:.3f}"
            lines.append(
                f"{name:{width}}  {errors.total_variation:5.3f}  {errors.standing:8.3f}  "
                f"{coverage:>8}{_figures(track.adapted)}"
            )
        lines.append(f"{'with the true mix':{width}}  {'':25}{_figures(self.with_truth)}")
        return "\n".join(lines)


def to_record(name: str, point: Point) -> dict[str, Any]:
    """An update as JSON values, with its monitor, its place and the true mix."""
    return {
        **point.update.to_dict(),
        "monitor": name,
        "number": point.number,
        "truth": point.truth.tolist(),
    }


def _figures(found: Predictions) -> str:
    return f"  {found.accuracy:8.4f}  {found.macro_recall:6.4f}  {found.log_loss:8.4f}"


def _plain(value: Any) -> Any:
    """NaN becomes None, which JSON has."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
