"""Windows and estimators as plain values, so that a snapshot can say how it was made."""

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from stream_leip.errors import SnapshotError
from stream_leip.estimators import (
    BBSE,
    EM,
    LEIP,
    RLLS,
    Auto,
    ClassifyAndCount,
    Fixed,
    MeanPosterior,
    Share,
)
from stream_leip.windows import Adaptive, Fading, Sliding, Tumbling

_TYPES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (
        Adaptive, Auto, BBSE, ClassifyAndCount, EM, Fading, Fixed, LEIP, MeanPosterior, RLLS, Share,
        Sliding, Tumbling,
    )
}  # fmt: skip


def to_plain(setting: Any) -> Any:
    """A setting as plain values; one of a type of the user's own is only named."""
    if isinstance(setting, timedelta):
        return {"type": "timedelta", "seconds": setting.total_seconds()}
    if is_dataclass(setting) and not isinstance(setting, type):
        name = type(setting).__name__
        if type(setting) is _TYPES.get(name):
            values = {each.name: to_plain(getattr(setting, each.name)) for each in fields(setting)}
            return {"type": name, **values}
    if isinstance(setting, np.generic):
        return setting.item()
    if setting is None or isinstance(setting, bool | int | float | str):
        return setting
    return {"type": f"{type(setting).__module__}.{type(setting).__qualname__}"}


def from_plain(name: str, plain: Any) -> Any:
    """The setting that `to_plain` gave."""
    if not isinstance(plain, dict):
        return plain
    values = dict(plain)
    kind = values.pop("type")
    if kind == "timedelta":
        return timedelta(seconds=values["seconds"])
    if kind not in _TYPES:
        raise SnapshotError(f"snapshot: its {name} is a {kind}; pass it to restore: {name}=…")
    return _TYPES[kind](**{each: from_plain(name, value) for each, value in values.items()})
