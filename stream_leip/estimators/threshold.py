"""How LEIP splits rows into the confident set and the low-confidence buffer."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from stream_leip.arrays import is_number
from stream_leip.errors import InputError
from stream_leip.profile import SourceProfile

LOWEST_SHARE = 0.05


@dataclass(frozen=True)
class Share:
    """Take this share of the rows, the most confident ones, as the confident set."""

    share: float

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0.0 < self.share <= 1.0):
            raise InputError(f"Share: {self.share!r} is not a share; use 0 < share <= 1")


@dataclass(frozen=True)
class Fixed:
    """Take the rows whose top probability is at least this as the confident set."""

    threshold: float

    def __post_init__(self) -> None:
        if not (is_number(self.threshold) and 0.0 <= self.threshold <= 1.0):
            raise InputError(f"Fixed: {self.threshold!r} is not a probability; use 0 to 1")


Threshold: TypeAlias = Literal["min-recall", "mean-recall", "min-precision"] | Share | Fixed
NAMED = ("min-recall", "mean-recall", "min-precision")


def confident_share(threshold: Threshold, profile: SourceProfile) -> tuple[float, str | None]:
    """The share of rows to be confident about, and a note where it is not the one asked for."""
    if isinstance(threshold, Share):
        return threshold.share, None
    if threshold == "mean-recall":
        asked = float(profile.recalls.mean())
    elif threshold == "min-recall":
        asked = float(profile.recalls.min())
    else:
        asked = float(np.nanmin(profile.precisions))
    if asked >= LOWEST_SHARE:
        return asked, None
    share = max(float(profile.recalls.mean()), LOWEST_SHARE)
    return share, (
        f"{threshold} is {asked:.3g}, below {LOWEST_SHARE}: the mean recall is used instead, "
        f"or {LOWEST_SHARE} if that is less: {share:.3g}"
    )
