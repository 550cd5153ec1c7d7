"""What a replay or a file of updates says, in words and in a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stream_leip.replay import Predictions, ReplayResult, Track
from stream_leip_connectors.figures.history import Lane


def of_replay(result: ReplayResult) -> tuple[str, ...]:
    """What happened, and what adapting gained: a sentence each."""
    name, track = best(result)
    moved = 0.5 * np.abs(result.truth - result.source).sum(axis=1)
    shares = result.truth
    j = int(np.argmax(np.ptp(np.vstack([shares, result.source]), axis=0)))
    if moved.max() < 0.01:
        happened = f"Over {result.n:,} events the class mix stayed that of the source"
    else:
        happened = (
            f"Over {result.n:,} events the class mix went up to {moved.max():.2f} in total "
            f"variation away from the source; {quoted(result.classes[j])} moved most, between "
            f"{percent(shares[:, j].min())} and {percent(shares[:, j].max())}"
        )
    alarmed = _alarm(track, result.changes)
    happened += f"; {name} was off by {track.errors.standing:.3f} on average{alarmed}."
    before, after = result.unadapted.accuracy, track.adapted.accuracy
    if track.updates == 0:
        return (happened, "No monitor gave an update, so nothing was adapted.")
    moved_to = f"{'raised' if after > before else 'lowered'} accuracy from {percent(before)} to"
    if percent(before) == percent(after):
        moved_to = "left accuracy at"
    gained = (
        f"Adapting the predictions {moved_to} {percent(after)} "
        f"({percent(result.with_truth.accuracy)} with the true mix known)"
    )
    if percent(before) != percent(after) and after > before:
        gained += f": {100 * (after - before) / (1 - before):.0f} % of the errors are gone"
    return happened, gained + "."


def best(result: ReplayResult) -> tuple[str, Track]:
    """The monitor whose estimates stood nearest to the truth."""
    return min(result.tracks.items(), key=lambda item: item[1].errors.standing)


def figures(result: ReplayResult) -> tuple[tuple[str, ...], ...]:
    """A table of the replay's scores: a heading, then a line for each monitor."""
    heading = (
        "", "error of updates", "error while standing", "intervals that hold", "events until alarm",
        "false alarms", "accuracy", "macro recall", "log loss",
    )  # fmt: skip
    lines = [("unadapted", "", "", "", "", "", *_scores(result.unadapted))]
    for name, track in result.tracks.items():
        errors, alarms = track.errors, track.alarms
        found = [] if alarms is None else [d for d in alarms.delays if d is not None]
        missed = 0 if alarms is None else len(alarms.delays) - len(found)
        after = _delays(found) if found else "" if alarms is None else "–"
        lines.append(
            (
                name,
                f"{errors.total_variation:.4f}",
                f"{errors.standing:.4f}",
                "" if errors.coverage is None else percent(errors.coverage),
                after + (f" ({missed} missed)" if missed else ""),
                "" if alarms is None else str(alarms.false),
                *_scores(track.adapted),
            )
        )
    lines.append(("with the true mix", "", "", "", "", "", *_scores(result.with_truth)))
    return (heading, *lines)


def cards(result: ReplayResult) -> tuple[tuple[str, str], ...]:
    """The figures to see first, each with what it is."""
    name, track = best(result)
    if track.updates == 0:
        return ()
    before, after = result.unadapted.accuracy, track.adapted.accuracy
    found = [
        (f"{track.errors.standing:.3f}", f"mean error of {name}, total variation"),
        (
            f"{percent(before)} → {percent(after)}".replace(" %", "\N{NO-BREAK SPACE}%"),
            f"accuracy, adapted by {name}",
        ),
    ]
    for other, each in result.tracks.items():
        if each.errors.coverage is not None:
            found.append((percent(each.errors.coverage), f"of {other}'s intervals hold the truth"))
        delays = [] if each.alarms is None else [d for d in each.alarms.delays if d is not None]
        if delays:
            found.append((_delays(delays), f"events from a change to {other}'s alarm"))
    return tuple(found[:4])


def of_counts(counts: Mapping[str, int]) -> tuple[str, ...]:
    """What came in beside good events in order."""
    odd = [f"{count:,} {name}" for name, count in counts.items() if count and name != "events"]
    if not odd:
        return ()
    return (f"Of {counts['events']:,} events that arrived, {', '.join(odd)}.",)


def of_updates(classes: tuple[str, ...], lanes: Sequence[Lane], streams: int) -> tuple[str, ...]:
    """What a file of updates says."""
    total = sum(lane.updates for lane in lanes)
    first = lanes[0]
    j = int(np.argmax(np.ptp(first.prior, axis=0)))
    of = f" of {streams} streams: in {first.name}," if streams > 1 else ":"
    said = [
        f"{total:,} updates{of} {quoted(classes[j])} moved most, between "
        f"{percent(first.prior[:, j].min())} and {percent(first.prior[:, j].max())}, and is at "
        f"{percent(first.prior[-1, j])} now."
    ]
    alarms = sum(len(lane.raised) for lane in lanes)
    if any(lane.alarm is not None for lane in lanes):
        said.append(f"The alarm was {f'raised {_times(alarms)}' if alarms else 'never raised'}.")
    return tuple(said)


def of_file(
    lines: int, bad: int, first_bad: str, streams: int, shown: int, untold: int
) -> tuple[str, ...]:
    """What of a file was left out."""
    notes = []
    if bad:
        notes.append(f"{bad:,} of {lines:,} lines are no updates; the first is {first_bad}.")
    if streams > shown:
        notes.append(f"{shown} of {streams} streams are shown, those with the most updates.")
    if untold:
        notes.append(f"{untold:,} updates are of streams beyond the first that were followed.")
    return tuple(notes)


def of_check(check: Mapping[str, Any] | None, flagged: int, updates: int) -> str:
    """What the assumption check says."""
    if check is None:
        return "No assumption check was made."
    said = str(check.get("message") or "")
    if not said:
        said = (
            "The inputs changed in a way a new class mix does not explain."
            if check.get("flagged")
            else "A new class mix explains what changed."
        )
    return f"{said.rstrip('.')}; {flagged:,} of {updates:,} updates were flagged."


def quoted(name: str) -> str:
    """A class's name in a sentence."""
    return f"class “{name}”"


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.1f} %"


def _alarm(track: Track, changes: Sequence[int]) -> str:
    alarms = track.alarms
    if alarms is None:
        return ""
    for change, delay in zip(changes, alarms.delays, strict=True):
        if delay is not None:
            return f", and raised its alarm {delay:,} events after the change at event {change:,}"
    if not alarms.raised:
        return ", and never raised its alarm"
    return f", and raised its alarm {_times(len(alarms.raised))}"


def _delays(events: Sequence[int]) -> str:
    """One by one if they are few: the median of 50 and 2,500 would be neither."""
    if len(events) <= 2:
        return " and ".join(f"{each:,}" for each in events)
    return f"median {np.median(events):,.0f}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _scores(found: Predictions) -> tuple[str, str, str]:
    return percent(found.accuracy), percent(found.macro_recall), f"{found.log_loss:.4f}"
