"""The table that `watch` draws on a terminal while it runs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from stream_leip import SourceProfile, Update
from stream_leip_connectors.console import people
from stream_leip_connectors.watching import Counts, Watch

_PAUSE = 0.25
_LINES = 15


@contextmanager
def live_table(watch: Watch, profile: SourceProfile) -> Iterator[Callable[[], None]]:
    """A function to call often: it draws now and then, and only on a terminal."""
    if not people.is_terminal:
        yield lambda: None
        return
    started = drawn = time.monotonic()
    begun = watch.counts.events
    # No thread of its own: it would share the core with the monitors.
    with Live(console=people, auto_refresh=False, transient=True) as live:

        def show() -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn >= _PAUSE:
                drawn = now
                rate = (watch.counts.events - begun) / (now - started)
                live.update(_picture(watch, profile, rate), refresh=True)

        yield show


def counted(counts: Counts, keys: int | None) -> str:
    """The counts in one line."""
    parts = [_many(counts.events, "event"), _many(counts.updates, "update")]
    if keys is not None:
        parts.append(_many(keys, "key"))
    if counts.bad:
        parts.append(f"{counts.bad:,} bad")
    if counts.late:
        parts.append(f"{counts.late:,} late")
    return ", ".join(parts)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _picture(watch: Watch, profile: SourceProfile, rate: float) -> Group:
    line = Text(f"{counted(watch.counts, watch.keys)}, {rate:,.0f} events/s")
    updates = list(watch.newest.values())
    if not updates:
        return Group(line)
    if watch.keys is None:
        return Group(line, classes_table(updates[-1], profile))
    return Group(line, keys_table(updates))


def classes_table(update: Update, profile: SourceProfile) -> Table:
    """The largest classes of an update, with source and estimates; its alarm is the title."""
    title = ", ".join(filter(None, (f"update {update.sequence}", update.alarm_words)))
    table = Table(title=escape(title), title_justify="left")
    columns = {"source": profile.hard_prior, "now": update.prior, "low": update.low,
               "high": update.high, "LEIP": update.leip, "EM": update.em}  # fmt: skip
    held = {name: column for name, column in columns.items() if column is not None}
    table.add_column("class")
    for name in held:
        table.add_column(name, justify="right")
    order = np.argsort(-(profile.hard_prior if update.prior is None else update.prior))
    for j in order[:_LINES]:
        table.add_row(escape(profile.classes[j]), *(f"{held[name][j]:.3f}" for name in held))
    return table


def keys_table(updates: list[Update]) -> Table:
    """The newest update of each key: its mix, and its alarm in words."""
    table = Table("key", "rows", "mix now", "alarm")
    for update in reversed(updates):
        words = update.mix_words, update.alarm_words
        table.add_row(escape(str(update.key)), f"{update.n:,}", *map(escape, words))
    return table
