"""One browser's view: it says what it wants, and gets that, twice a second at most."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from bokeh.core.properties import Int, String
from bokeh.document import Document
from bokeh.model import DataModel
from bokeh.models import Range1d

from stream_leip_connectors.dashboard import telling
from stream_leip_connectors.dashboard.download import as_csv
from stream_leip_connectors.dashboard.feeds import Feed
from stream_leip_connectors.dashboard.streams import Picture, Streams
from stream_leip_connectors.figures import plots
from stream_leip_connectors.figures.drawing import Plot

REDRAW_MS = 500
TABLE_LINES = 12
KEYS_SHOWN = 50
# Newest updates that a reader can have the figures show, beside all; the page names them.
RANGES = (150, 50)
_LONGEST_SEARCH = 200


class Board(DataModel):
    """What the server and the page tell each other, as JSON.

    `told` is about the stream that is shown, `pulse` about the source and the list of streams,
    `asked` is what the reader wants, `csv` a download.
    """

    told: Any = String(default="")
    pulse: Any = String(default="")
    asked: Any = String(default="{}")
    csv: Any = String(default="")
    beat: Any = Int(default=0)


class Asked(msgspec.Struct):
    """What the reader wants; `first` and `last` are of the x axis, `download` counts requests."""

    stream: int | None = None
    name: str | None = None
    search: str = ""
    classes: str = ""
    paused: bool = False
    first: float | None = None
    last: float | None = None
    download: int = 0


class View:
    """The models of one browser, and how they follow the streams.

    Parameters
    ----------
    streams, feed
        What there is to see.
    known
        More settings of the monitor to show.
    wanted
        The name of the stream to show first. Whether the x axis is a time is as this stream has
        it; for one that has it otherwise the page loads anew.
    clock
        Epoch seconds now.
    """

    def __init__(
        self,
        streams: Streams,
        feed: Feed,
        known: Mapping[str, str],
        wanted: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._streams = streams
        self._feed = feed
        self._known = known
        self._clock = clock
        self._asked = Asked(name=wanted)
        self._picture: Picture | None = None
        self._look()
        self._timed = self._picture is not None and self._picture.timed
        self._seats: list[int | None] = [None] * plots.CLASSES_AT_ONCE
        self._drawn: tuple[Any, ...] = ()
        self.board = Board()
        self.x_range = Range1d(start=0.0, end=1.0)
        nothing = telling.nothing(self._timed)
        found = {
            "mix": plots.live_mix(nothing, self.x_range),
            "alarm": plots.alarm(nothing, self.x_range),
            "memory": plots.memory(nothing, self.x_range),
            "confident": plots.confident(nothing, self.x_range),
        }
        self.plots: dict[str, Plot] = {k: plot for k, plot in found.items() if plot is not None}
        for plot in self.plots.values():
            # Nobody sees it, but a y axis without any point has nowhere to begin.
            plot.figure.scatter([0.0], [0.0], alpha=0.0)

    def attach(self, document: Document) -> None:
        """Put the models on a page, and keep them up to date while it is open."""
        for name, plot in self.plots.items():
            plot.figure.name = name
            document.add_root(plot.figure)
        self.board.name = "board"
        document.add_root(self.board)
        self.board.on_change("asked", self._ask)
        document.add_periodic_callback(self.tick, REDRAW_MS)
        self.tick()

    def _ask(self, _: str, __: str, text: str) -> None:
        before = self._asked
        try:
            asked = msgspec.json.decode(text.encode(), type=Asked)
        except (ValueError, RecursionError):
            return  # not from our page
        asked.search = asked.search[:_LONGEST_SEARCH]
        asked.classes = asked.classes[:_LONGEST_SEARCH]
        self._asked = asked
        if asked.download != before.download and self._picture is not None:
            order = telling.chosen(telling.history_of(self._picture), asked.classes)
            text = as_csv(self._picture, order, asked.first, asked.last)
            self.board.csv = f"{asked.download}\n{text}"

    def tick(self) -> None:
        """Send what has changed."""
        self.board.beat += 1
        self._look()
        self._draw()
        self._tell_pulse()

    def _look(self) -> None:
        """Take a picture of the stream that is wanted, unless nothing is new."""
        asked, held = self._asked, self._picture
        if asked.paused and held is not None:
            return
        number = asked.stream
        if number is None and asked.name is not None:
            number = self._streams.find(asked.name)
        if number is None or self._streams.version(number) is None:
            # A monitor that began anew has another number, and its name.
            number = None if held is None else self._streams.find(held.name)
        if number is None:
            first, _ = self._streams.entries(most=1)
            number = first[0].id if first else None
        if number is None:
            return
        version = self._streams.version(number)
        if held is None or (held.id, held.version) != (number, version):
            self._picture = self._streams.picture(number) or held

    def _draw(self) -> None:
        picture, asked = self._picture, self._asked
        if picture is None:
            return
        # Ages in words go on while nothing comes in.
        moment = None if asked.paused else int(self._clock())
        wanted = (picture.id, picture.version, asked.classes, asked.paused)
        if (*wanted, moment) == self._drawn:
            return
        same_lines = wanted == self._drawn[:-1]
        self._drawn = (*wanted, moment)
        history = telling.history_of(picture)
        order = telling.chosen(history, asked.classes)
        self._seats = telling.seated(order, self._seats)
        if not same_lines:
            self._fill(history)
        self._tell(picture, history.timed, order)

    def _fill(self, history: Any) -> None:
        mix, alarm = self.plots["mix"], self.plots["alarm"]
        mix.fill(plots.mix_lines(history, self._seats), plots.mix_marks(history))
        alarm.fill(plots.alarm_lines(history), plots.alarm_marks(history))
        self.plots["memory"].fill(plots.memory_lines(history), plots.changes(history))
        self.plots["confident"].fill(plots.confident_lines(history), plots.changes(history))

    def _tell(self, picture: Picture, timed: bool, order: list[int]) -> None:
        x = 1000.0 * picture.past.end if timed else picture.past.number
        monitor = self._feed.settings.get(picture.newest.monitor or "", {})
        said = {
            "stream": picture.id,
            "name": picture.name,
            "reload": timed != self._timed and len(x) > 0,
            "mix": telling.largest(picture),
            "movers": telling.movers(picture, order[:TABLE_LINES], self._seats),
            "found": len(order),
            "classes": len(picture.classes),
            "alarm": telling.alarm(picture),
            "check": telling.check(picture),
            "numbers": telling.numbers(picture, self._clock()),
            "window": telling.window(picture),
            "confidence": telling.confidence(picture),
            "settings": telling.settings(picture, {**monitor, **self._known}),
            "begins": telling.begins(picture, x, RANGES),
            "end": float(x[-1]) if len(x) else None,
            "paused": self._asked.paused,
        }
        self.board.told = msgspec.json.encode(said).decode()

    def _tell_pulse(self) -> None:
        entries, found = self._streams.entries(self._asked.search, KEYS_SHOWN)
        counts = self._streams.counts()
        health = self._feed.health()
        said = {
            "source": self._feed.name,
            "state": health.state,
            "health": health.text,
            "unread": health.unread,
            "updates": counts.updates,
            "streams": counts.streams,
            "keys": entries,
            "found": found,
            "notes": telling.notes(counts),
        }
        self.board.pulse = msgspec.json.encode(said).decode()
