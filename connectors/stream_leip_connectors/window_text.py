"""Windows as people write them: "adaptive", "tumbling 1000", "sliding 10m every 1m"."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from stream_leip import Adaptive, Fading, InputError, Sliding, Tumbling
from stream_leip.windows import Window

FORMS = (
    '"adaptive", "adaptive every 500", "tumbling 1000" (events), '
    '"tumbling 60s lateness 5s" (event time), '
    '"sliding 2000 every 500", "sliding 10m every 1m", "fading 5000", "fading 1h every 5m"'
)

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


@dataclass(frozen=True)
class _Lengths:
    """The lengths that a text gives: whole numbers are events, timedeltas event time."""

    size: int | timedelta | None
    every: int | timedelta | None
    lateness: timedelta


def parse_window(text: str) -> Window:
    """The window that a text describes; a length alone is of a tumbling one.

    Examples
    --------
    >>> from stream_leip_connectors.window_text import parse_window
    >>> parse_window("sliding 2000 every 500")
    Sliding(count=2000, seconds=None, every=500, lateness=0.0, emit_empty=False)
    >>> parse_window("60s").seconds
    60.0
    """
    words = text.lower().split()
    kind = words.pop(0) if words and words[0] in _KINDS else "tumbling"
    try:
        return _KINDS[kind](_lengths(words))
    except InputError as error:
        raise InputError(f"window: {text!r}: {error}. Windows read like {FORMS}") from None


def write_window(window: Window) -> str:
    """The text that describes a window; what no text describes, as in Python.

    Examples
    --------
    >>> from stream_leip import Tumbling
    >>> from stream_leip_connectors.window_text import write_window
    >>> write_window(Tumbling(seconds=60, lateness=5))
    'tumbling 60s lateness 5s'
    """
    given = vars(window)
    size = given.get("half_life", given.get("count"))
    if size is None and given.get("seconds") is not None:
        size = timedelta(seconds=given["seconds"])
    every = given.get("every")
    if every is not None and given.get("seconds") is not None:
        every = timedelta(seconds=every)
    parts = [type(window).__name__.lower(), _written(size)]
    parts += ["every", _written(every)] if every is not None else []
    late = given.get("lateness")
    parts += ["lateness", _written(timedelta(seconds=late))] if late else []
    text = " ".join(filter(None, parts))
    return text if parse_window(text) == window else str(window)


def _written(length: int | timedelta | None) -> str:
    if length is None:
        return ""
    return f"{length.total_seconds():.15g}s" if isinstance(length, timedelta) else f"{length}"


def _lengths(words: list[str]) -> _Lengths:
    parts: dict[str, list[str]] = {"size": []}
    part = "size"
    for word in words:
        if word in ("every", "lateness") and word not in parts:
            parts[word] = []
            part = word
        else:
            parts[part].append(word)
    every = _length("every", parts["every"]) if "every" in parts else None
    lateness = _length("lateness", parts["lateness"]) if "lateness" in parts else timedelta(0)
    if not isinstance(lateness, timedelta):
        raise InputError(f"lateness: {lateness} has no unit; write {lateness}s, say")
    return _Lengths(_length("length", parts["size"]) if parts["size"] else None, every, lateness)


def _length(name: str, words: list[str]) -> int | timedelta:
    text = " ".join(words)
    found = _LENGTH.fullmatch(text)
    if found is None or (found[2] and found[2] not in _UNITS):
        raise InputError(
            f"{name}: {text!r}; write events, as 1000, or time with {', '.join(_UNITS)}, as 60s"
        )
    if found[2]:
        try:
            return timedelta(seconds=float(found[1]) * _UNITS[found[2]])
        except OverflowError:
            raise InputError(f"{name}: {text!r} is too long") from None
    if not found[1].isdigit():
        raise InputError(f"{name}: {text!r} is not a whole number of events")
    return int(found[1])


def _size(given: _Lengths) -> int | timedelta:
    if given.size is None:
        raise InputError("its length is missing")
    if not isinstance(given.every, type(given.size) | None):
        raise InputError("its length and its step are not of one kind, events or time")
    if isinstance(given.size, int) and given.lateness:
        raise InputError("lateness: only windows by time have any; write 60s for the length, say")
    return given.size


def _seconds(length: int | timedelta | None) -> float | None:
    return length.total_seconds() if isinstance(length, timedelta) else length


def _tumbling(given: _Lengths) -> Window:
    size = _size(given)
    if given.every is not None:
        raise InputError('every: a tumbling window steps by its own length; write "sliding …"')
    if isinstance(size, int):
        return Tumbling(count=size)
    return Tumbling(seconds=_seconds(size), lateness=given.lateness.total_seconds())


def _sliding(given: _Lengths) -> Window:
    size = _size(given)
    if isinstance(size, int):
        return Sliding(count=size, every=_seconds(given.every))
    late = given.lateness.total_seconds()
    return Sliding(seconds=_seconds(size), every=_seconds(given.every), lateness=late)


def _fading(given: _Lengths) -> Window:
    return Fading(_size(given), given.every, given.lateness.total_seconds())


def _adaptive(given: _Lengths) -> Window:
    if given.size is not None or given.lateness or isinstance(given.every, timedelta):
        raise InputError(
            'its memory finds its own length, in events; write "adaptive", or "adaptive every 500"'
        )
    return Adaptive() if given.every is None else Adaptive(every=given.every)


_KINDS: dict[str, Callable[[_Lengths], Window]] = {
    "adaptive": _adaptive,
    "tumbling": _tumbling,
    "sliding": _sliding,
    "fading": _fading,
}
