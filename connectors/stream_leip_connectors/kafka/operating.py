"""What operators see of a worker: metrics, health and readiness on a port, notices for people."""

import logging
import time
from collections.abc import Callable
from typing import Protocol

from stream_leip import Update
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka.working import Working
from stream_leip_connectors.metrics import Metrics, PartitionReading, Reading
from stream_leip_connectors.notifying import Notices, Notifier
from stream_leip_connectors.status import StatusServer

log = logging.getLogger("stream_leip.kafka")

# Seconds without a turn of the worker's loop after which it is not well. A commit may take long,
# and a restore longer.
_STILL = 120.0


class Observed(Protocol):
    """What is looked at of a worker, from other threads."""

    tasks: dict[int, Working]
    lags: dict[int, int]
    commits: int
    commit_seconds: float
    restores: int
    restore_seconds: float
    beat: float

    def waiting_for(self) -> str | None:
        """What it waits for before it can work; None if it works."""


class Operation:
    """The port and the notices of one worker; each only if the settings ask for it.

    Parameters
    ----------
    settings
        They name the port and the address.
    worker
        Who is looked at.
    clock
        Epoch seconds now.
    merging
        With scope topic, the worker that has the one monitor.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        worker: Observed,
        clock: Callable[[], float] = time.time,
        merging: Observed | None = None,
    ) -> None:
        self._topic = settings.input
        self._worker = worker
        self._workers = [worker] if merging is None else [worker, merging]
        self._clock = clock
        self._metrics: Metrics | None = None
        self.server: StatusServer | None = None
        self._notices = Notices()
        self._notifier: Notifier | None = None
        if settings.notify_url is not None:
            self._notifier = Notifier(settings.notify_url.get_secret_value())
        if settings.metrics_port is not None:
            self._metrics = Metrics(self.reading)
            self.server = StatusServer(
                self._metrics.text,
                self._metrics.content_type,
                self.health,
                self.waiting_for,
                settings.metrics_host,
                settings.metrics_port,
            )
            self.server.start()

    def restored(self, task: Working) -> None:
        """A task is this process's now: what was told of its keys need not be told again."""
        self._notices.restore(task.told())

    def committed(self, updates: list[Update]) -> None:
        """Updates are on the broker: now they may be told."""
        if self._metrics is not None:
            self._metrics.note(updates)
        notices = self._notices.of(updates)
        self._notices.forget([key for key in self._notices.keys if self._at(key) is None])
        for notice in notices:
            key, event = notice["key"], notice["event"]
            where = {"partition": self._at(key), "key": key, "event": event}
            log.warning("%s", notice["text"], extra=where)
        if self._notifier is not None:
            self._notifier.post(notices)

    def _at(self, key: str | None) -> int | None:
        """A key's partition; None if it has expired, or moved to another process with it."""
        tasks = [each for worker in self._workers for each in list(worker.tasks.items())]
        return next((partition for partition, task in tasks if key in task.keyed), None)

    def health(self) -> str | None:
        """What is wrong with the process; None if it works, or waits for a broker."""
        still = time.monotonic() - min(worker.beat for worker in self._workers)
        return f"the worker has not moved for {still:.0f} s" if still > _STILL else None

    def waiting_for(self) -> str | None:
        """What is waited for before all is ready; None if it is."""
        return next(filter(None, (worker.waiting_for() for worker in self._workers)), None)

    def reading(self) -> Reading:
        """What is known now."""
        worker = self._worker
        if self._metrics is not None:
            self._metrics.forget([key for key in self._metrics.keys if self._at(key) is None])
        lags = dict(worker.lags)
        return Reading(
            self._topic,
            {each: self._of(task, lags.get(each)) for each, task in list(worker.tasks.items())},
            worker.commits,
            worker.commit_seconds,
            worker.restores,
            worker.restore_seconds,
            ready=self.waiting_for() is None,
        )

    def _of(self, task: Working, lag: int | None) -> PartitionReading:
        counts = task.counts
        behind = None
        if lag is not None and (not lag or task.newest is not None):
            behind = max(0.0, self._clock() - (task.newest or 0) / 1000) if lag else 0.0
        return PartitionReading(
            counts.events,
            counts.bad,
            counts.late,
            counts.updates,
            counts.lost,
            keys=len(task.keyed),
            lag=lag,
            behind=behind,
        )

    def close(self) -> None:
        """Post what waits, and let go of the port."""
        if self._notifier is not None:
            self._notifier.close(2.0)
        if self.server is not None:
            self.server.close()
