"""What `stream-leip replay` shows on a terminal: a bar and a table as it runs, and a summary."""

import time

import numpy as np
from rich.box import HEAVY_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from stream_leip import SourceProfile
from stream_leip.replay import Point, ReplayResult
from stream_leip_connectors.console import people
from stream_leip_connectors.report import words

CLASSES_SHOWN = 10
# What of the report's table fits into 80 columns, and under which heading.
BRIEFLY = {
    "error while standing": "error",
    "intervals that hold": "held",
    "events until alarm": "alarm",
    "false alarms": "false",
    "accuracy": "accuracy",
    "macro recall": "recall",
    "log loss": "log loss",
}


class View:
    """A bar, and a table of the true mix against the estimates."""

    def __init__(self, profile: SourceProfile, events: int) -> None:
        self._profile = profile
        self._newest: dict[str, Point] = {}
        self._begun = time.perf_counter()
        self._done = 0
        self._bar = Progress(
            TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=people, auto_refresh=False,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=events)

    @property
    def rate(self) -> float:
        """Events a second."""
        return self._done / max(time.perf_counter() - self._begun, 1e-9)

    def note(self, name: str, point: Point) -> None:
        """Remember a monitor's newest update."""
        self._newest[name] = point

    def advance(self, done: int, _: int) -> None:
        """Move the bar."""
        self._done = done
        self._bar.update(self._task, completed=done)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield self._bar
        yield self._table(options.max_width)

    def _table(self, width: int) -> Table:
        newest = dict(self._newest)
        names = list(newest)
        # A monitor's column has 24 characters, and the first three together 26.
        brief = 26 + 24 * len(names) > width
        table = Table(
            title=f"{self.rate:,.0f} events a second{_alarms(newest)}",
            title_justify="left",
            box=None if brief else HEAVY_HEAD,
        )
        for name in ("class", "source", "true", *names):
            table.add_column(escape(name), justify="left" if name == "class" else "right")
        if not newest:
            return table
        source = self._profile.soft_prior
        truth = max(newest.values(), key=lambda point: point.number).truth
        for j in np.argsort(-np.abs(truth - source), kind="stable")[:CLASSES_SHOWN]:
            cells = [f"{source[j]:.3f}", f"{truth[j]:.3f}"]
            cells += [_estimate(point, int(j), brief) for point in newest.values()]
            table.add_row(escape(self._profile.classes[j]), *cells)
        return table


def _estimate(point: Point, j: int, brief: bool) -> str:
    update = point.update
    if update.prior is None:
        return "–"
    if update.low is None or update.high is None:
        return f"{update.prior[j]:.3f}"
    low, high = update.low[j], update.high[j]
    interval = f"{low:.2f}–{high:.2f}" if brief else f"{low:.3f} – {high:.3f}"
    return f"{update.prior[j]:.3f} ({interval})"


def _alarms(newest: dict[str, Point]) -> str:
    raised = [name for name, point in newest.items() if (point.update.alarm or {}).get("raised")]
    return f"   alarm: {', '.join(map(escape, raised))}" if raised else ""


def summarise(result: ReplayResult, rate: float, console: Console) -> None:
    """Print the scores, and what happened in two sentences."""
    heading, *lines = words.figures(result)
    kept = [
        k
        for k, name in enumerate(heading)
        if k == 0 or (name in BRIEFLY and any(line[k] for line in lines))
    ]
    title = f"{result.n:,} events, {rate:,.0f} a second"
    names = {k: "" if k == 0 else BRIEFLY[heading[k]] for k in kept}
    widths = [max(len(name), *(len(line[k]) for line in lines)) for k, name in names.items()]
    gap = 1 if sum(widths) + 2 * len(widths) > console.width else 2
    table = Table(title=title, title_justify="left", box=None, padding=(0, gap, 0, 0))
    for k, name in names.items():
        # On a narrow terminal delays fold, and figures stay whole.
        fixed = name != "alarm"
        table.add_column(name, justify="left" if k == 0 else "right", no_wrap=fixed)
    for line in lines:
        table.add_row(*(escape(line[k]) for k in kept))
    console.print(table)
    for sentence in words.of_replay(result):
        console.print(sentence, markup=False)
