"""Which field or column of an input holds what: found where obvious, or said by the user."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from stream_leip import InputError
from stream_leip.arrays import is_number
from stream_leip.times import epoch_seconds
from stream_leip_connectors.config import WrongUsage
from stream_leip_connectors.events import Fields

ABSENT = "none"
SCORES, KEY, LABEL = "scores", "key", "label"
TIMES = ("time", "timestamp")
# Columns that are no class, whatever they hold.
RESERVED = frozenset({LABEL, KEY, "id", *TIMES})


class Asked(NamedTuple):
    """What the user said; None to find it, "none" if there is none."""

    scores: str | None = None
    time: str | None = None
    key: str | None = None


def find_in_event(event: Any, classes: tuple[str, ...], asked: Asked) -> Fields:
    """The fields of a JSON event, by its first example."""
    if not isinstance(event, dict):
        raise InputError(f"an event is an object, not {_kind(event)}")
    scores = _score_field(event, classes, asked)
    taken = {scores} if scores is not None else set(classes)
    time = _chosen("time", asked.time, event)
    if time is None and asked.time is None:
        time = next((name for name in TIMES if name in event and _is_time(event[name])), None)
    key = _chosen("key", asked.key, event)
    if key is None and asked.key is None and KEY not in taken and _is_key(event.get(KEY)):
        key = KEY
    return Fields(scores, None if time in taken else time, key)


def find_in_table(names: Sequence[str], classes: tuple[str, ...], asked: Asked) -> Fields:
    """The columns of a table, by its header; one for each class, unless `scores` holds lists."""
    lists = asked.scores if asked.scores not in (None, ABSENT) else None
    missing = [name for name in classes if name not in names]
    if lists is None and missing and SCORES in names and asked.scores is None:
        lists = SCORES
    if lists is not None and lists not in names:
        raise WrongUsage(f"--scores: there is no column {lists!r}; found {_listed(names)}")
    if lists is None and missing:
        raise InputError(
            f"no column for class {missing[0]!r}; the profile's classes are {_listed(classes)}, "
            f"and the columns found are {_listed(names)}"
        )
    taken = set(classes) if lists is None else {lists}
    present = dict.fromkeys(names)
    time = _chosen("time", asked.time, present)
    if time is None and asked.time is None:
        time = next((name for name in TIMES if name in names and name not in taken), None)
    key = _chosen("key", asked.key, present)
    if key is None and asked.key is None and KEY in names and KEY not in taken:
        key = KEY
    return Fields(lists, time, key)


def describe(fields: Fields) -> str:
    """What was found, in half a line."""
    scores = "a column for each class" if fields.scores is None else f"scores in {fields.scores!r}"
    time = "no time" if fields.time is None else f"time in {fields.time!r}"
    key = "one stream" if fields.key is None else f"a stream for each {fields.key!r}"
    return f"{scores}, {time}, {key}"


def _score_field(event: dict[str, Any], classes: tuple[str, ...], asked: Asked) -> str | None:
    if asked.scores == ABSENT:
        return None
    if asked.scores is not None:
        if asked.scores not in event:
            raise WrongUsage(f"--scores: there is no field {asked.scores!r}; found {_shown(event)}")
        return asked.scores
    fit = [name for name, value in event.items() if _fits(value, classes)]
    if SCORES in fit or len(fit) == 1:
        return SCORES if SCORES in fit else fit[0]
    if all(is_number(event.get(name)) for name in classes):
        return None
    what = f"{len(fit)} fields could be" if fit else "no field is"
    raise InputError(
        f"{what} the scores of the {len(classes)} classes {_listed(classes)}; found "
        f"{_shown(event)}. Name the field with --scores, as in --scores probabilities"
    )


def _fits(value: Any, classes: tuple[str, ...]) -> bool:
    if isinstance(value, list):
        return len(value) == len(classes) and all(map(is_number, value))
    named = isinstance(value, dict) and len(value) > 0
    return named and set(value) <= set(classes) and all(map(is_number, value.values()))


def _chosen(what: str, asked: str | None, present: Mapping[str, Any]) -> str | None:
    if asked in (None, ABSENT):
        return None
    if asked not in present:
        found = _listed(list(present))
        raise WrongUsage(f"--{what}: there is no field or column {asked!r}; found {found}")
    return asked


def _is_time(value: Any) -> bool:
    try:
        epoch_seconds(datetime.fromisoformat(value) if isinstance(value, str) else value)
    except ValueError:
        return False
    return True


def _is_key(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _shown(event: dict[str, Any]) -> str:
    return _listed([f"{name} ({_kind(value)})" for name, value in event.items()])


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    if isinstance(value, dict):
        return f"object of {len(value)}"
    if isinstance(value, str):
        return "text"
    return "number" if is_number(value) else str(value).lower()


def _listed(names: Sequence[str], most: int = 12) -> str:
    if not names:
        return "nothing"
    return ", ".join(names[:most]) + (f", … ({len(names)})" if len(names) > most else "")
