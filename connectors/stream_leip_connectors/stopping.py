"""Ending a loop between two batches, when a signal asks for it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether a signal asked to end."""

    def __init__(self, also: Callable[[], None] | None = None) -> None:
        self.asked = False
        self._also = also

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal; a second Ctrl-C ends at once."""
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        if self._also is not None:
            self._also()


@contextmanager
def stopping(also: Callable[[], None] | None = None) -> Iterator[Stop]:
    """Have SIGINT and SIGTERM set `asked`, and call `also`."""
    stop = Stop(also)
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
