"""What a stream's picture says, in words and numbers for the page."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from stream_leip.arrays import Vector
from stream_leip_connectors.dashboard.streams import Counts, Onset, Picture, settled_rate
from stream_leip_connectors.figures.history import History, Lane

MOST_ONSETS = 8


def history_of(picture: Picture) -> History:
    """What the figures draw of a stream."""
    past, timed = picture.past, picture.timed
    x = 1000.0 * past.end if timed else past.number
    known = ~np.isnan(past.truth).any(axis=1)
    lane = Lane(
        name=picture.name,
        x=x,
        prior=past.prior,
        low=past.low,
        high=past.high,
        memory=past.memory,
        alarm=past.alarm,
        threshold=past.threshold,
        raised=tuple(place(each, timed) for each in picture.onsets if each.kind == "alarm"),
        warned=tuple(place(each, timed) for each in picture.onsets if each.kind == "warning"),
        check=None,
        flagged=picture.flagged,
        error_x=x,
        error=None,
        settings={},
        updates=picture.updates,
        confident=past.confident,
        buffered=past.buffered,
    )
    return History(
        title=picture.name,
        sentences=(),
        classes=picture.classes,
        source=picture.source,
        timed=timed,
        lanes=(lane,),
        truth_x=x[known],
        truth=past.truth[known] if known.any() else None,
    )


def nothing(timed: bool) -> History:
    """What figures draw of a stream that is yet to come."""
    none, empty = np.empty(0), np.empty((0, 2))
    lane = Lane(
        name="estimate", x=none, prior=empty, low=empty, high=empty, memory=none, alarm=none,
        threshold=none, raised=(), warned=(), check=None, flagged=0, error_x=none, error=None,
        settings={}, updates=0, confident=none, buffered=none,
    )  # fmt: skip
    return History("", (), ("", ""), None, timed, (lane,))


def place(onset: Onset, timed: bool) -> float:
    """Where on the x axis an onset is."""
    return 1000.0 * onset.end if timed and onset.end is not None else onset.number


def movers(picture: Picture, order: Sequence[int], slots: Sequence[int | None]) -> list[Any]:
    """Lines of the table: class, source, now, interval, change, and its place in the figure."""
    newest = picture.newest
    if newest.prior is None:
        return []
    first = picture.past.prior[0]
    lines = []
    for j in order:
        home = None if picture.source is None else float(picture.source[j])
        now = newest.prior[j]
        interval = ""
        if newest.low is not None and newest.high is not None:
            interval = f"{100 * newest.low[j]:.1f} – {100 * newest.high[j]:.1f} %"
        change = 100 * (now - (float(first[j]) if home is None else home))
        lines.append(
            {
                "name": picture.classes[j],
                "source": "–" if home is None else percent(home),
                "now": percent(now),
                "interval": interval or "–",
                "change": f"{change:+.1f}".replace("-", "−"),
                "share": round(now, 4),
                "home": None if home is None else round(home, 4),
                "slot": slots.index(j) if j in slots else None,
            }
        )
    return lines


def alarm(picture: Picture) -> dict[str, Any]:
    """Whether the mix changed: a word for it, a sentence, and the last times it did."""
    told, timed = picture.newest.alarm, picture.timed
    onsets = [
        f"{'Alarm raised' if each.kind == 'alarm' else 'Warning'} at {_when(each, timed)}"
        + (f" by class {', '.join(each.moved)}" if each.moved else "")
        for each in reversed(picture.onsets)
    ]
    raised = [each for each in picture.onsets if each.kind == "alarm"]
    if told is None:
        state, word, said = "off", "not watched", "No alarm runs on this stream."
    elif told.raised:
        state, word = "raised", "changed"
        said = "The mix has changed: the alarm is raised."
    elif told.warning:
        state, word = "warning", "likely"
        said = "A change is likely: the alarm warns."
    elif raised:
        state, word = "settled", "settled"
        said = "No change since the last alarm."
    else:
        state, word, said = "quiet", "no", "The alarm was never raised."
    if raised and state != "off":
        moved = f" by class {', '.join(raised[-1].moved)}" if raised[-1].moved else ""
        said += f" Last raised at {_when(raised[-1], timed)}{moved}."
    if picture.newest.changed_at is not None:
        said += f" The last change was at about event {picture.newest.changed_at:,}."
    return {"state": state, "word": word, "said": said, "onsets": onsets[:MOST_ONSETS]}


def check(picture: Picture) -> dict[str, Any]:
    """Whether the estimate can be trusted."""
    told = picture.newest.check
    if told is None:
        return {"flagged": None, "word": "not checked", "said": "No assumption check was made."}
    if told.flagged:
        word, said = "doubtful", "More than the class mix has changed, so the mix may be wrong."
    else:
        word, said = "yes", "A new class mix explains what changed."
    message = (told.message or "").strip().rstrip(".")
    said = f"{said} In detail: {message}." if message else said
    said += f" {picture.flagged:,} of {picture.updates:,} updates were flagged."
    return {"flagged": told.flagged, "word": word, "said": said}


def numbers(picture: Picture, now: float) -> list[tuple[str, str]]:
    """How the stream is doing."""
    newest, past = picture.newest, picture.past
    rate = settled_rate(past, picture.timed, now)
    received = float(past.received[-1]) if len(past.received) else None
    found = [
        ("events a second", "–" if rate is None else f"{rate:,.0f}"),
        ("events", f"{newest.place():,.0f}"),
        ("updates", f"{picture.updates:,}"),
        ("bad events", f"{newest.bad:,}"),
        ("late events", f"{newest.late:,}"),
        ("thinned rows", f"{newest.thinned:,}"),
    ]
    if newest.end is not None and picture.timed:
        found.append(("lag", f"{span(now - newest.end)} behind the newest event"))
    if received is not None:
        found.append(("newest update", f"{span(now - received)} ago"))
    return found


def window(picture: Picture) -> str:
    """How far back the estimate looks."""
    newest = picture.newest
    back = newest.n if newest.memory is None else newest.memory
    return f"{back:,.0f} events"


def confidence(picture: Picture) -> str:
    """The confident set against the buffer."""
    newest = picture.newest
    if newest.confident is None or newest.buffered is None:
        return "Nobody counted LEIP's confident set."
    sure = sum(newest.confident)
    total = sure + newest.buffered
    share = f" ({percent(sure / total)})" if total else ""
    limit = "" if newest.threshold is None else f" Confidence counts from {newest.threshold:.3f}."
    return (
        f"{sure:,.0f} rows are in the confident set{share}, {newest.buffered:,.0f} in the "
        f"low-confidence buffer.{limit}"
    )


def settings(picture: Picture, known: Mapping[str, str]) -> list[tuple[str, str]]:
    """What is known of the monitor."""
    newest = picture.newest
    limit = None if newest.alarm is None else newest.alarm.threshold
    found = [
        *known.items(),
        ("estimate by", newest.estimator),
        ("because", newest.reason),
        ("alarm threshold", "" if limit is None else f"{limit:.3f}"),
        ("classes", f"{len(picture.classes):,}"),
        ("key", newest.key or ""),
    ]
    return [(name, value) for name, value in found if value]


def notes(counts: Counts) -> list[str]:
    """What was left out, and why."""
    found = []
    if counts.bad:
        lines = "1 line is no update" if counts.bad == 1 else f"{counts.bad:,} lines are no updates"
        found.append(f"{lines}; the last: {counts.why}.")
    if counts.forgotten:
        found.append(f"{counts.forgotten:,} streams that were silent longest are forgotten.")
    return found


def largest(picture: Picture) -> list[str]:
    """The largest classes now, in words."""
    prior = picture.newest.prior
    if prior is None:
        return ["nothing in scope"]
    order = np.argsort(-np.array(prior), kind="stable")[:3]
    return [f"{picture.classes[j]}: {percent(prior[j])}" for j in order]


def chosen(history: History, search: str) -> list[int]:
    """The classes whose name has a text in it, those that moved most first."""
    wanted = search.casefold()
    return [j for j in history.movers() if wanted in history.classes[j].casefold()]


def seated(order: Sequence[int], before: Sequence[int | None]) -> list[int | None]:
    """Places for the first classes: whoever stays keeps the place, and so the colour."""
    wanted = list(order[: len(before)])
    seats = [j if j in wanted else None for j in before]
    free = iter([j for j in wanted if j not in seats])
    return [next(free, None) if j is None else j for j in seats]


def begins(picture: Picture, x: Vector, newest: Sequence[int]) -> list[float]:
    """Where all updates begin, and the newest ones: so many of them, for each number."""
    if not len(x):
        return []
    left = picture.past.updates.sum() - np.cumsum(picture.past.updates)
    return [float(x[0]), *(float(x[int(np.argmax(left < most))]) for most in newest)]


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.1f} %"


def span(seconds: float) -> str:
    """How long, in words."""
    seconds = max(0.0, seconds)
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _when(onset: Onset, timed: bool) -> str:
    if timed and onset.end is not None:
        moment = datetime.fromtimestamp(onset.end, UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return f"event {onset.number:,.0f}"


def shown(values: Vector, first: float | None, last: float | None) -> np.ndarray[Any, Any]:
    """Which steps are in a range."""
    inside = np.ones(len(values), bool)
    if first is not None:
        inside &= values >= first
    if last is not None:
        inside &= values <= last
    return inside
