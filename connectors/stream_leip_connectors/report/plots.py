"""Figures of a history. They know nothing of the page they stand on."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    DataRange1d,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Legend, LegendItem
from bokeh.plotting import figure as new_figure

from stream_leip.arrays import Vector
from stream_leip_connectors.report.history import History, Lane

# A glyph on a figure; Bokeh's lists of them do not agree on a type.
Drawn: TypeAlias = Any

# Of middle brightness, so that they read on light and on dark.
COLOURS = (
    "#2f7ed8", "#e8802a", "#16a085", "#c2409b", "#8e6bd8", "#b5971c", "#d9534f", "#5d8a3a",
)  # fmt: skip
ALARM, WARNING, CHANGE, INK = "#d93a3a", "#d9a03a", "#8a8f98", "#20242c"
CLASSES_AT_ONCE = 6
# More upright lines than this are a wall, and are left out.
MOST_MARKS = 500


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure, and the parts that a theme colours or a page changes."""

    figure: new_figure
    inked: list[str] = field(default_factory=list)
    items: list[LegendItem] = field(default_factory=list)
    legends: list[str] = field(default_factory=list)

    def painted(self) -> dict[str, list[str]]:
        """Ids of its axes, grids, legends, and of the glyphs that have the colour of text."""
        return {
            "axes": [each.id for each in self.figure.axis],
            "grids": [each.id for each in self.figure.grid],
            "legends": self.legends,
            "inked": self.inked,
        }


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
    lane = history.lanes[0] if history.lanes else None
    plot = Plot(_figure(history, x_range, "share of events", height=360))
    marks = _marks(plot, history, lane, warnings=False)
    for place, j in enumerate(history.movers()[:CLASSES_AT_ONCE]):
        colour = COLOURS[place % len(COLOURS)]
        drawn = [] if lane is None else _estimated(plot, history, lane, j, colour)
        if history.truth is not None:
            truth = ColumnDataSource(truth_columns(history, j))
            drawn.append(
                plot.figure.line(
                    "x", "y", source=truth, color=colour, line_dash="dashed", line_width=1.5
                )
            )
        plot.items.append(_item(history.classes[j], drawn))
    _shares(plot)
    plot.items.extend(marks)
    return _legend(plot)


def _estimated(plot: Plot, history: History, lane: Lane, j: int, colour: str) -> list[Drawn]:
    """A class's line, which hovering names by the class, and its band."""
    source = ColumnDataSource(lane_columns(lane, j))
    banded = lane.low is not None
    line = plot.figure.line("x", "y", source=source, color=colour, line_width=2.2)
    line.name = history.classes[j]
    plot.figure.add_tools(_hover(history, [line], "class", banded=banded))
    return [line, _band(plot, source, colour)] if banded else [line]


def panel(history: History, j: int, x_range: Range1d) -> Panel:
    """One class: the truth, and what each stream says."""
    plot = Panel(_figure(history, x_range, "", height=190))
    plot.truth.data = truth_columns(history, j)
    if history.truth is not None:
        line = plot.figure.line(
            "x", "y", source=plot.truth, color=INK, line_width=1.4, line_dash="dashed"
        )
        line.name = "true"
        plot.inked.append(line.glyph.id)
        plot.figure.add_tools(_hover(history, [line], ""))
    for place, (lane, colour) in enumerate(_coloured(history)):
        source = ColumnDataSource(lane_columns(lane, j))
        plot.lanes.append(source)
        # More than one band would hide the lines.
        if lane.low is not None and place == 0:
            _band(plot, source, colour)
        line = plot.figure.line("x", "y", source=source, color=colour, line_width=1.8)
        line.name = lane.name
        plot.figure.add_tools(_hover(history, [line], "", banded=lane.low is not None))
    _shares(plot)
    plot.figure.yaxis.ticker = BasicTicker(desired_num_ticks=4)
    if not history.timed:
        plot.figure.xaxis.ticker = BasicTicker(desired_num_ticks=4)
    plot.figure.toolbar_location = None
    return plot


def error(history: History, x_range: Range1d) -> Plot | None:
    """How far each stream is from the truth."""
    lines = [
        _Line(lane.name, lane.error_x, lane.error, colour)
        for lane, colour in _coloured(history)
        if lane.error is not None
    ]
    if not lines:
        return None
    return _legend(_lines(history, x_range, "error (total variation)", lines, "0.00"))


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
        colour = INK if name in (names[0], names[-1]) else COLOURS[(place - 1) % len(COLOURS)]
        dash = "dashed" if name == names[-1] else "solid"
        lines.append(_Line(name, x, _means(values, step), colour, dash))
    return _legend(_lines(history, x_range, "accuracy", lines, "0.0 %"))


def memory(history: History, x_range: Range1d) -> Plot | None:
    """On how many events each estimate rests."""
    if not history.lanes:
        return None
    lines = [_Line(lane.name, lane.x, lane.memory, colour) for lane, colour in _coloured(history)]
    return _legend(_lines(history, x_range, "events in effect", lines, "0,0"))


def alarm(history: History, x_range: Range1d) -> Plot | None:
    """The alarm's value against its threshold, with a mark where it was raised."""
    alarmed = [(lane, colour) for lane, colour in _coloured(history) if lane.alarm is not None]
    if not alarmed:
        return None
    lines = [
        _Line(lane.name, lane.x, lane.alarm, colour)
        for lane, colour in alarmed
        if lane.alarm is not None
    ]
    values = np.concatenate([line.y for line in lines])
    known = values[np.isfinite(values)]
    steep = len(known) > 0 and known.min() > 0 and known.max() > 1000 * known.min()
    first = alarmed[0][0]
    plot = _lines(history, x_range, "alarm value", lines, "0.[00]a", steep, first)
    if first.threshold is not None:
        columns = ColumnDataSource({"x": first.x, "y": first.threshold})
        drawn = plot.figure.step(
            "x", "y", source=columns, mode="before", color=ALARM, line_dash="dashed"
        )
        drawn.name = "threshold"
        plot.items.append(_item("threshold", [drawn]))
    return _legend(plot)


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


class _Line(NamedTuple):
    name: str
    x: Vector
    y: Vector
    colour: str
    dash: str = "solid"


def _coloured(history: History) -> list[tuple[Lane, str]]:
    """The streams, each with the colour that it has in every figure."""
    return [(lane, COLOURS[k % len(COLOURS)]) for k, lane in enumerate(history.lanes)]


def _lines(
    history: History,
    x_range: Range1d,
    what: str,
    lines: list[_Line],
    form: str,
    logarithmic: bool = False,
    marks: Lane | None = None,
) -> Plot:
    plot = Plot(_figure(history, x_range, what, 250, logarithmic))
    others = _marks(plot, history, marks)
    for each in lines:
        line = plot.figure.line(
            "x",
            "y",
            source=ColumnDataSource({"x": each.x, "y": each.y}),
            color=each.colour,
            line_width=1.4 if each.colour == INK else 2.0,
            line_dash=each.dash,
        )
        line.name = each.name
        if each.colour == INK:
            plot.inked.append(line.glyph.id)
        plot.items.append(_item(each.name, [line]))
        plot.figure.add_tools(_hover(history, [line], "", form=form))
    plot.figure.yaxis.formatter = NumeralTickFormatter(format=form)
    plot.items.extend(others)
    return plot


def _figure(
    history: History, x_range: Range1d, what: str, height: int, logarithmic: bool = False
) -> new_figure:
    made = new_figure(
        y_range=DataRange1d(),
        height=height,
        sizing_mode="stretch_width",
        x_range=x_range,
        x_axis_type="datetime" if history.timed else "linear",
        y_axis_type="log" if logarithmic else "linear",
        y_axis_label=what or None,
        tools="xpan,xbox_zoom,reset,save",
        active_drag=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=16,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    if not history.timed:
        made.xaxis.formatter = NumeralTickFormatter(format="0,0")
        made.xaxis.axis_label = "events" if what else None
    made.axis.axis_label_text_font_style = "normal"
    made.xgrid.grid_line_color = None
    made.axis.minor_tick_line_color = None
    return made


def _band(plot: Plot, source: ColumnDataSource, colour: str) -> Drawn:
    return plot.figure.varea("x", "low", "high", source=source, fill_color=colour, fill_alpha=0.18)


def _marks(
    plot: Plot, history: History, lane: Lane | None, warnings: bool = True
) -> list[LegendItem]:
    """Upright lines at true changes, alarms and warnings."""
    found = []
    kinds: list[tuple[str, Sequence[float], str, str]] = [
        ("true change", history.changes, CHANGE, "dotted")
    ]
    if lane is not None and warnings:
        kinds.append(("warning", lane.warned, WARNING, "solid"))
    if lane is not None:
        kinds.append(("alarm", lane.raised, ALARM, "solid"))
    for name, places, colour, dash in kinds:
        if 0 < len(places) <= MOST_MARKS:
            drawn = plot.figure.vspan(
                x=list(places), line_color=colour, line_dash=dash, line_width=1.5, name=name
            )
            found.append(_item(name, [drawn]))
    return found


def _hover(
    history: History,
    renderers: list[Drawn],
    what: str,
    banded: bool = False,
    form: str = "0.0 %",
) -> HoverTool:
    rows = [(what or "line", "$name"), ("value", f"@y{{{form}}}")]
    if banded:
        rows.append(("interval", f"@low{{{form}}} – @high{{{form}}}"))
    rows.append(("time", "@x{%F %T}") if history.timed else ("event", "@x{0,0}"))
    return HoverTool(
        renderers=renderers,
        tooltips=rows,
        formatters={"@x": "datetime"} if history.timed else {},
        mode="mouse",
        line_policy="nearest",
        visible=False,
    )


def _item(name: str, renderers: Sequence[Drawn]) -> LegendItem:
    # Two dollar signs would begin a formula.
    return LegendItem(label={"value": name.replace("$", "$\u200b")}, renderers=list(renderers))


def _legend(plot: Plot) -> Plot:
    legend = Legend(
        items=plot.items,
        click_policy="hide",
        orientation="horizontal",
        ncols=4,
        location="left",
        background_fill_color=None,
        border_line_color=None,
        spacing=10,
        margin=0,
        label_text_font_size="12px",
    )
    plot.figure.add_layout(legend, "above")
    plot.legends.append(legend.id)
    return plot


def _shares(plot: Plot) -> None:
    plot.figure.yaxis.formatter = NumeralTickFormatter(format="0 %")
    plot.figure.y_range = DataRange1d(start=0.0)


def _means(values: Vector, step: int) -> Vector:
    """Means of so many neighbours, leaving out what is not known."""
    whole = values[: len(values) - len(values) % step].reshape(-1, step)
    known = np.isfinite(whole)
    sums, counts = np.where(known, whole, 0.0).sum(axis=1), known.sum(axis=1)
    found = np.full(len(whole), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found
