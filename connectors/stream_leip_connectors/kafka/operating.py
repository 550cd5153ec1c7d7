"""What operators see of a worker: metrics, health and readiness on a port, notices for people."""

import time
from collections.abc import Callable
from typing import Protocol

from stream_leip import Update
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka.task import Task
from stream_leip_connectors.metrics import Metrics, PartitionReading, Reading
from stream_leip_connectors.notifying import Notices, Notifier
from stream_leip_connectors.status import StatusServer

# Seconds without a turn of the worker's loop after which it is not well. A commit may take long,
# and a restore longer.
_STILL = 120.0


class Observed(Protocol):
    """What is looked at of a worker, from other threads."""

    tasks: dict[int, Task]
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
    """

    def __init__(
        self,
        settings: KafkaSettings,
        worker: Observed,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._topic = settings.input
        self._worker = worker
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
                worker.waiting_for,
                settings.metrics_host,
                settings.metrics_port,
            )
            self.server.start()

    def committed(self, updates: list[Update]) -> None:
        """Updates are on the broker: now they may be told."""
        if self._metrics is not None:
            self._metrics.note(updates)
        if self._notifier is not None:
            self._notices.forget([key for key in self._notices.keys if not self._has(key)])
            self._notifier.post(self._notices.of(updates))

    def _has(self, key: str | None) -> bool:
        """Whether a key is this process's: it has not expired, nor moved with its partition."""
        return any(key in task.keyed for task in list(self._worker.tasks.values()))

    def health(self) -> str | None:
        """What is wrong with the process; None if it works, or waits for a broker."""
        still = time.monotonic() - self._worker.beat
        return f"the worker has not moved for {still:.0f} s" if still > _STILL else None

    def reading(self) -> Reading:
        """What is known now."""
        worker = self._worker
        if self._metrics is not None:
            self._metrics.forget([key for key in self._metrics.keys if not self._has(key)])
        lags = dict(worker.lags)
        return Reading(
            self._topic,
            {each: self._of(task, lags.get(each)) for each, task in list(worker.tasks.items())},
            worker.commits,
            worker.commit_seconds,
            worker.restores,
            worker.restore_seconds,
        )

    def _of(self, task: Task, lag: int | None) -> PartitionReading:
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
