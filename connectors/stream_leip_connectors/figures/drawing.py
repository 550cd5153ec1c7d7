"""Lines, bands and marks on a figure, which can be filled anew."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    DataRange1d,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Legend, LegendItem
from bokeh.plotting import figure as new_figure

from stream_leip.arrays import Vector

# A glyph on a figure; Bokeh's lists of them do not agree on a type.
Glyph: TypeAlias = Any

# Told apart by colour-blind people too, and 3 to 1 against light and dark alike.
COLOURS = (
    "#0092ff", "#db796d", "#869e00", "#7924ff", "#796118", "#c279c2", "#c2006d", "#aa18b6",
)  # fmt: skip
ALARM, WARNING, CHANGE, INK = "#d93a3a", "#d9a03a", "#8a8f98", "#20242c"
# Pixels of a legend: beside a name, under it, and what a figure has beside its frame.
LEGEND = {"cell": 45, "row": 23, "beside": 90}
# More upright lines than this are a wall, and are left out.
MOST_MARKS = 500


class Line(NamedTuple):
    """A line to draw.

    Parameters
    ----------
    name
        What hovering calls it.
    x, y, low, high
        Where it is, and its band if it has one.
    colour, dash, width
        How it looks; lines of colour INK have the colour of text.
    label
        Lines of one label share an entry of the legend; its name unless given.
    """

    name: str
    x: Vector
    y: Vector
    colour: str
    dash: str = "solid"
    width: float = 2.0
    low: Vector | None = None
    high: Vector | None = None
    label: str | None = None

    @property
    def columns(self) -> dict[str, Vector]:
        """What a source holds of it."""
        columns = {"x": self.x, "y": self.y}
        if self.low is not None and self.high is not None:
            columns |= {"low": self.low, "high": self.high}
        return columns


class Marks(NamedTuple):
    """Upright lines of one kind."""

    name: str
    places: Sequence[float]
    colour: str
    dash: str = "solid"

    @property
    def columns(self) -> dict[str, Vector]:
        """What a source holds of them."""
        shown = self.places if len(self.places) <= MOST_MARKS else ()
        return {"x": np.array(shown, float)}


class Axes(NamedTuple):
    """What a figure's axes are.

    Parameters
    ----------
    x_range
        Shared by the figures of a page.
    timed
        Whether x is milliseconds since the epoch, or counts events.
    what
        The y axis in words; nothing for a small figure.
    form
        How its numbers are written.
    height
        In pixels.
    logarithmic
        Whether y is.
    """

    x_range: Range1d
    timed: bool
    what: str
    form: str = "0.0 %"
    height: int = 250
    logarithmic: bool = False


@dataclass(frozen=True, eq=False)
class Plot:
    """A figure, and the parts that a theme colours or a page changes."""

    figure: new_figure
    inked: list[str] = field(default_factory=list)
    items: list[LegendItem] = field(default_factory=list)
    legends: list[str] = field(default_factory=list)
    drawn: list[tuple[Glyph, LegendItem]] = field(default_factory=list)
    marked: list[tuple[Glyph, LegendItem]] = field(default_factory=list)

    def painted(self) -> dict[str, list[str]]:
        """Ids of its axes, grids, legends, and of the glyphs that have the colour of text."""
        return {
            "axes": [each.id for each in self.figure.axis],
            "x_axes": [each.id for each in self.figure.xaxis],
            "grids": [each.id for each in self.figure.grid],
            "legends": self.legends,
            "inked": self.inked,
        }

    def fill(self, lines: Sequence[Line], marks: Sequence[Marks]) -> None:
        """Show other lines, as many as were drawn and in their order, and other marks."""
        shown: dict[str, bool] = {}
        for (glyph, item), line in zip(self.drawn, lines, strict=True):
            glyph.data_source.data = line.columns
            if glyph.name != line.name:
                glyph.name = line.name
            shown[item.id] = shown.get(item.id, False) or len(line.x) > 0
            _label(item, line.label or line.name)
        for (glyph, item), mark in zip(self.marked, marks, strict=True):
            columns = mark.columns
            if not np.array_equal(glyph.data_source.data["x"], columns["x"]):
                glyph.data_source.data = columns
            shown[item.id] = len(columns["x"]) > 0
        for item in self.items:
            if item.visible != shown[item.id]:
                item.visible = shown[item.id]


def plot_of(axes: Axes, lines: Sequence[Line], marks: Sequence[Marks], last: int = 0) -> Plot:
    """A figure with a legend.

    Parameters
    ----------
    axes
        Of the figure.
    lines, marks
        What is drawn; marks lie below the lines, and come after them in the legend.
    last
        How many of the lines come last in the legend.
    """
    plot = Plot(new_axes(axes))
    for mark in marks:
        glyph = plot.figure.vspan(
            x="x", source=ColumnDataSource(mark.columns), line_color=mark.colour,
            line_dash=mark.dash, line_width=1.5, name=mark.name,
        )  # fmt: skip
        plot.marked.append((glyph, _item(mark.name, [glyph], len(mark.columns["x"]) > 0)))
    items: dict[str, LegendItem] = {}
    for line in lines:
        glyphs = draw_line(plot, axes, line)
        label = line.label or line.name
        if label in items:
            items[label].renderers = [*items[label].renderers, *glyphs]
        else:
            items[label] = _item(label, glyphs, len(line.x) > 0)
        plot.drawn.append((glyphs[0], items[label]))
    entries = list(items.values())
    cut = len(entries) - last
    plot.items.extend([*entries[:cut], *(item for _, item in plot.marked), *entries[cut:]])
    plot.figure.yaxis.formatter = NumeralTickFormatter(format=axes.form)
    _legend(plot)
    return plot


def draw_line(plot: Plot, axes: Axes, line: Line, banded: bool = True) -> list[Glyph]:
    """A line, which hovering names, and its band."""
    source = ColumnDataSource(line.columns)
    bounded = line.low is not None
    glyph = plot.figure.line(
        "x", "y", source=source, color=line.colour, line_width=line.width, line_dash=line.dash
    )
    glyph.name = line.name
    if line.colour == INK:
        plot.inked.append(glyph.glyph.id)
    plot.figure.add_tools(_hover(axes, glyph, bounded))
    if not (bounded and banded):
        return [glyph]
    band = plot.figure.varea(
        "x", "low", "high", source=source, fill_color=line.colour, fill_alpha=0.18
    )
    return [glyph, band]


def new_axes(axes: Axes) -> new_figure:
    """An empty figure."""
    made = new_figure(
        y_range=DataRange1d(),
        height=axes.height,
        sizing_mode="stretch_width",
        x_range=axes.x_range,
        x_axis_type="datetime" if axes.timed else "linear",
        y_axis_type="log" if axes.logarithmic else "linear",
        y_axis_label=axes.what or None,
        tools="xpan,xbox_zoom,reset,save",
        active_drag=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=16,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    if not axes.timed:
        made.xaxis.formatter = NumeralTickFormatter(format="0,0")
        made.xaxis.axis_label = "events" if axes.what else None
    made.axis.axis_label_text_font_style = "normal"
    made.xgrid.grid_line_color = None
    made.axis.minor_tick_line_color = None
    return made


def as_shares(plot: Plot) -> None:
    """Have the y axis begin at nothing, and count in per cent, in parts of one where need be."""
    plot.figure.yaxis.formatter = NumeralTickFormatter(format="0.[000] %")
    plot.figure.y_range = DataRange1d(start=0.0)


def _hover(axes: Axes, glyph: Glyph, bounded: bool) -> HoverTool:
    form = axes.form
    rows = [("line", "$name"), ("value", f"@y{{{form}}}")]
    if bounded:
        rows.append(("interval", f"@low{{{form}}} – @high{{{form}}}"))
    rows.append(("time", "@x{%F %T}") if axes.timed else ("event", "@x{0,0}"))
    return HoverTool(
        renderers=[glyph],
        tooltips=rows,
        formatters={"@x": "datetime"} if axes.timed else {},
        mode="mouse",
        line_policy="nearest",
        visible=False,
    )


def _item(name: str, renderers: list[Glyph], visible: bool) -> LegendItem:
    return LegendItem(label={"value": _plain(name)}, renderers=renderers, visible=visible)


def _label(item: LegendItem, name: str) -> None:
    if item.label.value != _plain(name):  # type: ignore[union-attr]  # ours are all of values
        item.label = {"value": _plain(name)}


def _plain(name: str) -> str:
    # Two dollar signs would begin a formula.
    return name.replace("$", "$\u200b")


def _legend(plot: Plot) -> None:
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
