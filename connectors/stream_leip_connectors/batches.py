"""Batches of events, and what reads them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError, SourceProfile
from stream_leip_connectors.config import WrongUsage
from stream_leip_connectors.detection import Asked
from stream_leip_connectors.events import Events, Fields

T = TypeVar("T")


class Batch(NamedTuple):
    """Events that were read together.

    Parameters
    ----------
    events
        As arrays.
    numbers
        The line (from 1) or row (from 0, as in an array) of each in its input.
    original
        The bytes of the event at a place of the batch.
    """

    events: Events
    numbers: NDArray[np.int64]
    original: Callable[[int], bytes]


class Reader(Protocol):
    """Events of one input."""

    unit: str

    @property
    def fields(self) -> Fields | None:
        """Which field or column holds what; None until an event has shown it."""

    def read(self) -> Batch | None:
        """The next events; an empty batch if there are none yet; None at the end."""

    def mark(self) -> dict[str, Any]:
        """How far reading came; a reader opened with it goes on from there."""

    def close(self) -> None:
        """Let go of the input."""


class Opening(NamedTuple):
    """What a reader is opened with.

    Parameters
    ----------
    path
        The file; "-" is stdin.
    profile
        Names the classes.
    asked
        What the user said of fields and columns.
    format
        By the file's name, if None.
    follow
        Wait for more at the end.
    keep_unfinished
        Leave a last line that is not finished for the next run.
    mark
        What `Reader.mark` gave.
    """

    path: Path
    profile: SourceProfile
    asked: Asked = Asked()
    format: str | None = None
    follow: bool = False
    keep_unfinished: bool = False
    mark: dict[str, Any] | None = None


def named(name: str, call: Callable[..., T], *arguments: Any) -> T:
    """The result of a call; its errors begin with the input's name."""
    try:
        return call(*arguments)
    except InputError as error:
        says = str(error)
        if isinstance(error, WrongUsage) or says.startswith(name):
            raise
        raise InputError(f"{name}: {says}") from error
