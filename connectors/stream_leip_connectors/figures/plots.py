"""Figures of a history. They know nothing of the page they stand on."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from bokeh.models import BasicTicker, ColumnDataSource, Range1d

from stream_leip.arrays import Vector
from stream_leip_connectors.figures.drawing import (
    ALARM,
    CHANGE,
    COLOURS,
    INK,
    WARNING,
    Axes,
    Line,
    Marks,
    Plot,
    as_shares,
    draw_line,
    new_axes,
    plot_of,
)
from stream_leip_connectors.figures.history import History, Lane

CLASSES_AT_ONCE = 6
_NONE = np.empty(0)


@dataclass(frozen=True, eq=False)
class Panel(Plot):
    """One class: the truth and the estimates, each with its source, to be filled anew."""

    truth: ColumnDataSource = field(default_factory=ColumnDataSource)
    lanes: list[ColumnDataSource] = field(default_factory=list)


def shared_range(history: History) -> Range1d:
    """One x axis for all figures."""
    lines = [lane.x for lane in history.lanes] + [history.truth_x, history.accuracy_x]
    every = np.concatenate([line for line in lines if len(line)])
    first = float(every.min()) if history.timed else min(0.0, float(every.min()))
    last = float(every.max())
    if last <= first:
        first, last = first - 1.0, last + 1.0
    return Range1d(start=first, end=last, bounds=(first, last))


def mix(history: History, x_range: Range1d) -> Plot:
    """The classes that moved most: true and estimated shares, with bands, of the first stream."""
    lines = mix_lines(history, history.movers()[:CLASSES_AT_ONCE])
    drawn = [line for line in lines if len(line.x)]
    return _mix(history, x_range, drawn)


def live_mix(history: History, x_range: Range1d) -> Plot:
    """The same with a place for each class that may be shown; `fill` it with `mix_lines`."""
    return _mix(history, x_range, mix_lines(history, [None] * CLASSES_AT_ONCE))


def _mix(history: History, x_range: Range1d, lines: list[Line]) -> Plot:
    axes = Axes(x_range, history.timed, "share of events", height=360)
    plot = plot_of(axes, lines, mix_marks(history))
    as_shares(plot)
    return plot


def mix_lines(history: History, places: Sequence[int | None]) -> list[Line]:
    """Three for each class: estimated with its band, in the source, and true.

    A place without a class has lines without points.
    """
    lane = history.lanes[0] if history.lanes else None
    lines = []
    for place, j in enumerate(places):
        # A label of its own keeps an empty place out of the entries of the others.
        name = f"place {place + 1}" if j is None else history.classes[j]
        colour = COLOURS[place % len(COLOURS)]
        estimated, true = {"x": _NONE, "y": _NONE, "low": _NONE, "high": _NONE}, (_NONE, _NONE)
        source = (_NONE, _NONE)
        if j is not None and lane is not None:
            estimated = lane_columns(lane, j)
        if j is not None and history.truth is not None:
            true = (history.truth_x, history.truth[:, j])
        x = estimated["x"] if len(estimated["x"]) else true[0]
        if j is not None and history.source is not None and len(x):
            source = (x[[0, -1]], np.full(2, history.source[j]))
        lines += [
            Line(name, colour=colour, width=2.2, label=name, **estimated),  # type: ignore[arg-type]
            Line(f"{name}, source", *source, colour, "dotted", 1.5, label=name),
            Line(f"{name}, true", *true, colour, "dashed", 1.5, label=name),
        ]
    return lines


def mix_marks(history: History) -> list[Marks]:
    """True changes and alarms; warnings would bury the mix."""
    lane = history.lanes[0] if history.lanes else None
    return [
        Marks("true change", history.changes, CHANGE, "dotted"),
        Marks("alarm", () if lane is None else lane.raised, ALARM),
    ]


def panel(history: History, j: int, x_range: Range1d) -> Panel:
    """One class: the truth, and what each stream says."""
    axes = Axes(x_range, history.timed, "", height=190)
    plot = Panel(new_axes(axes))
    truth = truth_columns(history, j)
    plot.truth.data = truth
    if history.truth is not None:
        (glyph,) = draw_line(plot, axes, Line("true", truth["x"], truth["y"], INK, "dashed", 1.4))
        glyph.data_source = plot.truth
    for place, (lane, colour) in enumerate(_coloured(history)):
        line = Line(lane.name, colour=colour, width=1.8, **lane_columns(lane, j))  # type: ignore[arg-type]
        # More than one band would hide the lines.
        glyph = draw_line(plot, axes, line, banded=place == 0)[0]
        plot.lanes.append(glyph.data_source)
    as_shares(plot)
    plot.figure.yaxis.ticker = BasicTicker(desired_num_ticks=4)
    if not history.timed:
        plot.figure.xaxis.ticker = BasicTicker(desired_num_ticks=3)
    plot.figure.toolbar_location = None
    return plot


def error(history: History, x_range: Range1d) -> Plot | None:
    """How far each stream is from the truth."""
    lines = [
        Line(lane.name, lane.error_x, lane.error, colour)
        for lane, colour in _coloured(history)
        if lane.error is not None
    ]
    if not lines:
        return None
    axes = Axes(x_range, history.timed, "error (total variation)", "0.00")
    return plot_of(axes, lines, changes(history))


def accuracy(history: History, x_range: Range1d) -> Plot | None:
    """Predictions as they came, adapted, and adapted by one who knows the mix."""
    if not history.accuracy:
        return None
    # Shorter stretches would show the chance of the draw.
    step = max(1, len(history.accuracy_x) // 25)
    x = _means(history.accuracy_x, step)
    names = list(history.accuracy)
    lines = []
    for place, (name, values) in enumerate(history.accuracy.items()):
        ink = name in (names[0], names[-1])
        colour = INK if ink else COLOURS[(place - 1) % len(COLOURS)]
        dash = "dashed" if name == names[-1] else "solid"
        lines.append(Line(name, x, _means(values, step), colour, dash, 1.4 if ink else 2.0))
    return plot_of(Axes(x_range, history.timed, "accuracy"), lines, changes(history))


def memory(history: History, x_range: Range1d) -> Plot | None:
    """On how many events each estimate rests."""
    if not history.lanes:
        return None
    axes = Axes(x_range, history.timed, "events in effect", "0,0")
    return plot_of(axes, memory_lines(history), changes(history))


def memory_lines(history: History) -> list[Line]:
    """One for each stream."""
    return [Line(lane.name, lane.x, lane.memory, colour) for lane, colour in _coloured(history)]


def alarm(history: History, x_range: Range1d) -> Plot | None:
    """The alarm's value against its threshold, with a mark where it was raised."""
    lines = alarm_lines(history)
    if not lines:
        return None
    values = np.concatenate([line.y for line in lines if line.colour != ALARM])
    known = values[np.isfinite(values)]
    steep = len(known) > 0 and bool(known.min() > 0 and known.max() > 1000 * known.min())
    axes = Axes(x_range, history.timed, "alarm value", "0.[00]a", logarithmic=steep)
    last = int(lines[-1].colour == ALARM)
    return plot_of(axes, lines, alarm_marks(history), last=last)


def alarm_lines(history: History) -> list[Line]:
    """One for each stream that has an alarm, and the threshold of the first."""
    alarmed = [(lane, colour) for lane, colour in _coloured(history) if lane.alarm is not None]
    lines = [
        Line(lane.name, lane.x, lane.alarm, colour)
        for lane, colour in alarmed
        if lane.alarm is not None
    ]
    first = alarmed[0][0] if alarmed else None
    if first is not None and first.threshold is not None:
        lines.append(Line("threshold", first.x, first.threshold, ALARM, "dashed", 1.4))
    return lines


def alarm_marks(history: History) -> list[Marks]:
    """True changes, warnings and alarms, of the first stream that has any."""
    first = next((lane for lane in history.lanes if lane.alarm is not None), None)
    return [
        *changes(history),
        Marks("warning", () if first is None else first.warned, WARNING),
        Marks("alarm", () if first is None else first.raised, ALARM),
    ]


def confident(history: History, x_range: Range1d) -> Plot | None:
    """LEIP's confident set against its low-confidence buffer, of the first stream."""
    lines = confident_lines(history)
    if not lines:
        return None
    axes = Axes(x_range, history.timed, "rows in scope", "0,0")
    return plot_of(axes, lines, changes(history))


def confident_lines(history: History) -> list[Line]:
    """How many rows are in the one, and in the other."""
    lane = next((lane for lane in history.lanes if lane.confident is not None), None)
    if lane is None or lane.confident is None or lane.buffered is None:
        return []
    return [
        Line("confident set", lane.x, lane.confident, COLOURS[0]),
        Line("low-confidence buffer", lane.x, lane.buffered, COLOURS[1], "dashed"),
    ]


def lane_columns(lane: Lane, j: int) -> dict[str, Vector]:
    """A class's shares in a stream, with bounds where there are any."""
    columns = {"x": lane.x, "y": lane.prior[:, j]}
    if lane.low is not None and lane.high is not None:
        columns |= {"low": lane.low[:, j], "high": lane.high[:, j]}
    return columns


def truth_columns(history: History, j: int) -> dict[str, Vector]:
    """A class's true shares."""
    known = history.truth is not None
    return {"x": history.truth_x, "y": history.truth[:, j] if known else np.empty(0)}  # type: ignore[index]


def _coloured(history: History) -> list[tuple[Lane, str]]:
    """The streams, each with the colour that it has in every figure."""
    return [(lane, COLOURS[k % len(COLOURS)]) for k, lane in enumerate(history.lanes)]


def changes(history: History) -> list[Marks]:
    """True changes."""
    return [Marks("true change", history.changes, CHANGE, "dotted")]


def _means(values: Vector, step: int) -> Vector:
    """Means of so many neighbours, leaving out what is not known."""
    whole = values[: len(values) - len(values) % step].reshape(-1, step)
    known = np.isfinite(whole)
    sums, counts = np.where(known, whole, 0.0).sum(axis=1), known.sum(axis=1)
    found = np.full(len(whole), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found
