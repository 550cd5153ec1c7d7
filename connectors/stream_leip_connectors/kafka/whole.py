"""Whole-topic scope: two workers in a process, one that slices partitions, one that merges them.

Each is a member of a group of its own, with transactions and state of its own; between them is the
panes topic, which has one partition. Of all processes one merges at a time.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from stream_leip.windows import Window
from stream_leip_connectors.config import KafkaSettings, WrongUsage
from stream_leip_connectors.kafka.application import Topics
from stream_leip_connectors.kafka.worker import Worker


def check_window(window: Window) -> None:
    """WrongUsage unless a window has a meaning over partitions."""
    if not window.needs_time and type(window).__name__ != "Adaptive":
        raise WrongUsage(
            "scope: topic, but the window goes by count, and events of several partitions have no "
            "common one; use a window by time, such as 'tumbling 60s', or adaptive"
        )


def lateness_of(window: Window, settings: KafkaSettings) -> float:
    """Seconds by which an event may be older than the newest of its partition."""
    own: float | timedelta | None = getattr(window, "lateness", None)
    if own is None or not window.needs_time:
        return settings.lateness
    return own.total_seconds() if isinstance(own, timedelta) else float(own)


def in_order(window: Window) -> Window:
    """The same window, for events that come in the order of their times."""
    given: Any = window
    return replace(given, lateness=0.0) if getattr(window, "lateness", None) else window


def topics_of(settings: KafkaSettings) -> tuple[Topics, Topics]:
    """Of the slicing worker and of the merging one."""
    letters, panes = settings.letters_topic, settings.panes_topic
    return (
        Topics(settings.input, panes, letters, settings.changelog_topic),
        Topics(panes, settings.updates, letters, f"{settings.group}-merge-changelog"),
    )


def merge_group(settings: KafkaSettings) -> str:
    """The group of the merging workers."""
    return f"{settings.group}-merge"


def run_both(slicing: Worker, merging: Worker, stop: Callable[[], None]) -> None:
    """Run both until one ends; then the other ends too, and what it raised is raised here."""
    failure: list[BaseException] = []

    def merge() -> None:
        try:
            merging.run()
        except BaseException as error:  # it is raised below, in the caller
            failure.append(error)
        finally:
            stop()

    thread = threading.Thread(target=merge, name="merging", daemon=True)
    thread.start()
    try:
        slicing.run()
    finally:
        stop()
        thread.join()
    if failure:
        raise failure[0]
