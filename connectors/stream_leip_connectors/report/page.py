"""The page around the figures: one HTML file that needs nothing from outside."""

import html
import math
import platform
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import bokeh
import numpy as np
from bokeh.embed import components
from bokeh.model import Model
from bokeh.resources import Resources

from stream_leip import __version__
from stream_leip_connectors.figures import plots
from stream_leip_connectors.figures.drawing import COLOURS, LEGEND, Plot
from stream_leip_connectors.figures.embedding import as_json
from stream_leip_connectors.figures.history import History
from stream_leip_connectors.report import words

PANELS = 12

_ABOUT = {
    "mix": (
        "Class mix",
        "The classes that moved most. Solid: estimated{by}; shaded: its interval, if it has one; "
        "dotted: in the source, dashed: true, if known. Click a name to hide it.",
    ),
    "error": ("Error over time", "Distance of the estimate that stood from the true mix."),
    "accuracy": ("Accuracy before and after", "Share of events whose class was predicted."),
    "memory": ("Window in effect", "How far back each estimate looks."),
    "confident": (
        "Confident set",
        "Rows that LEIP counts by their label, against those it has to share out between classes.",
    ),
    "alarm": ("Alarm", "Raised where its value reaches the threshold."),
}


def render(history: History) -> str:
    """The report as HTML."""
    x_range = plots.shared_range(history)
    found = {
        "mix": plots.mix(history, x_range),
        "error": plots.error(history, x_range),
        "accuracy": plots.accuracy(history, x_range),
        "memory": plots.memory(history, x_range),
        "confident": plots.confident(history, x_range),
        "alarm": plots.alarm(history, x_range),
    }
    drawn = {name: plot for name, plot in found.items() if plot is not None}
    movers = history.movers()
    panels = [plots.panel(history, j, x_range) for j in movers[:PANELS]]
    figures: dict[str, Model] = {name: plot.figure for name, plot in drawn.items()}
    figures |= {f"panel{k}": each.figure for k, each in enumerate(panels)}
    script, boxes = components(figures)
    payload = _payload(history, movers, [*drawn.values(), *panels], panels)
    resources = Resources(mode="inline", components=["bokeh"])
    scripts = "\n".join(f"<script>{code}</script>" for code in resources.js_raw)
    parts = [
        f"<h1>{_text(history.title)}</h1>",
        *(f'<p class="lead">{_text(each)}</p>' for each in history.sentences),
        *(f'<p class="note">{_text(each)}</p>' for each in history.notes),
        _cards(history),
        _table(history.figures, "figures") if history.figures else "",
        _section("mix", boxes["mix"], history),
        _classes(history, [boxes[f"panel{k}"] for k in range(len(panels))], movers),
        *(_section(name, boxes[name], history) for name in drawn if name != "mix"),
        _checks(history),
        _settings(history),
    ]
    ours, shared = files("stream_leip_connectors.report"), files("stream_leip_connectors.figures")
    return _PAGE.format(
        title=_text(history.title),
        css=shared.joinpath("page.css").read_text(encoding="utf-8"),
        body="\n".join(parts),
        scripts=scripts,
        payload=as_json(payload),
        plots=script,
        js=shared.joinpath("paint.js").read_text(encoding="utf-8")
        + ours.joinpath("page.js").read_text(encoding="utf-8"),
    )


def _payload(
    history: History, movers: list[int], drawn: list[Plot], panels: list[plots.Panel]
) -> dict[str, Any]:
    """What the page's own script needs: every class's lines, and ids of what it changes."""
    painted: dict[str, list[str]] = {}
    for plot in drawn:
        for name, ids in plot.painted().items():
            painted.setdefault(name, []).extend(ids)
    lanes = []
    for lane in history.lanes:
        plain = {"x": lane.x.tolist(), "y": _columns(lane.prior)}
        if lane.low is not None and lane.high is not None:
            plain |= {"low": _columns(lane.low), "high": _columns(lane.high)}
        lanes.append(plain)
    truth = history.truth
    return {
        "classes": history.classes,
        "order": movers,
        "lanes": lanes,
        "truth": None if truth is None else {"x": history.truth_x.tolist(), "y": _columns(truth)},
        "slots": [
            {"truth": each.truth.id, "lanes": [source.id for source in each.lanes]}
            for each in panels
        ],
        "painted": painted,
        "legend": LEGEND,
    }


def _cards(history: History) -> str:
    cards = "".join(
        f'<div class="card"><b>{_text(figure)}</b><span>{_text(what)}</span></div>'
        for figure, what in history.cards
    )
    return f'<div class="cards">{cards}</div>' if cards else ""


def _section(name: str, box: str, history: History) -> str:
    heading, about = _ABOUT[name]
    by = f" by {history.lanes[0].name}" if len(history.lanes) > 1 else ""
    words_about = _text(about.format(by=by))
    return (
        f'<section id="{name}"><h2>{heading}</h2><p class="about">{words_about}</p>{box}</section>'
    )


def _classes(history: History, boxes: list[str], movers: list[int]) -> str:
    keys = [
        f'<span class="key"><i style="border-color:{COLOURS[k % len(COLOURS)]}"></i>'
        f"{_text(lane.name)}</span>"
        for k, lane in enumerate(history.lanes)
    ]
    if history.truth is not None:
        keys.insert(0, '<span class="key"><i class="dashed"></i>true</span>')
    controls = ""
    if len(history.classes) > len(boxes):
        controls = (
            '<div class="controls"><input id="search" type="search" placeholder="search classes" '
            'aria-label="search classes"><button id="back">back</button>'
            '<button id="on">more</button><span id="told" class="note"></span></div>'
        )
    panels = "".join(
        f'<div class="panel" data-label="{j}"><h3>{_text(history.classes[j])}</h3>{box}</div>'
        for j, box in zip(movers, boxes, strict=False)
    )
    return (
        f'<section id="classes"><h2>Each class</h2><p class="about">Largest movers first.</p>'
        f'<div>{"".join(keys)}</div>{controls}<div class="panels">{panels}</div></section>'
    )


def _checks(history: History) -> str:
    if all(lane.check is None for lane in history.lanes):
        return (
            '<section id="check"><h2>Is it only the class mix that changed?</h2>'
            "<p>No assumption check was made.</p></section>"
        )
    lines = "".join(
        f"<p><b>{_text(lane.name)}</b>: "
        f"{_text(words.of_check(lane.check, lane.flagged, lane.updates))}</p>"
        for lane in history.lanes
        if lane.check is not None
    )
    return f'<section id="check"><h2>Is it only the class mix that changed?</h2>{lines}</section>'


def _settings(history: History) -> str:
    lines = list(history.settings.items())
    for lane in history.lanes:
        said = ", ".join(f"{name} {value}" for name, value in lane.settings.items() if value)
        lines.append((lane.name, f"{lane.updates} updates{', ' if said else ''}{said}"))
    numpy_version, python = version("numpy"), platform.python_version()
    lines.append(
        (
            "versions",
            f"stream-leip {__version__}, Python {python}, numpy {numpy_version}, "
            f"Bokeh {bokeh.__version__}",
        )
    )
    rows = "".join(f"<tr><td>{_text(name)}</td><td>{_text(said)}</td></tr>" for name, said in lines)
    return (
        f'<section><h2>Settings</h2><table class="settings" id="settings">{rows}</table></section>'
    )


def _table(lines: tuple[tuple[str, ...], ...], name: str) -> str:
    # A column that says nothing in any line is left out.
    kept = [k for k in range(len(lines[0])) if k == 0 or any(line[k] for line in lines[1:])]
    head = "".join(f"<th>{_text(lines[0][k])}</th>" for k in kept)
    body = "".join(
        "<tr>" + "".join(f"<td>{_text(line[k])}</td>" for k in kept) + "</tr>" for line in lines[1:]
    )
    return (
        f'<div class="wide" role="region" aria-label="{name}" tabindex="0"><table id="{name}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _columns(lines: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Class by class, to four digits; JSON has no NaN."""
    return [
        [None if math.isnan(value) else float(f"{value:.4g}") for value in column]
        for column in lines.T.tolist()
    ]


def _text(value: str) -> str:
    return html.escape(value)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' \
'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
{body}
<script type="application/json" id="history">{payload}</script>
{scripts}
{plots}
<script>{js}</script>
</body>
</html>
"""
