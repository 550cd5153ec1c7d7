"""The Kafka connector as a library: a monitor for each key of a topic."""

from typing import Any

from stream_leip import Adaptive, InputError, SourceProfile
from stream_leip.estimators import Estimator
from stream_leip.windows import Window
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.events import FLOAT32, JSON, Fields
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.operating import Operation
from stream_leip_connectors.kafka.reaching import check_reach
from stream_leip_connectors.kafka.restoring import Restorer
from stream_leip_connectors.kafka.task import Blueprint, Counts
from stream_leip_connectors.kafka.topics import check_topics, forget
from stream_leip_connectors.kafka.worker import Membership, Topics, Worker

_DEFAULT_WINDOW = Adaptive()


class KafkaMonitor:
    """Watches a topic of predictions, and writes prior updates to another, exactly once.

    Parameters
    ----------
    profile, window, estimator
        As for `KeyedMonitor`.
    settings
        Where it reads and writes, and as which member of its group.
    adopt
        Whether to close the panes of another profile, or of other settings, with a last update,
        and start clean.
    client_options
        Of every Kafka client, such as those of its security.
    options
        Other arguments of `KeyedMonitor`: level, alarm, check, max_rows, top_k, max_keys.

    Examples
    --------
    ::

        monitor = KafkaMonitor(
            SourceProfile.load("profile.json"),
            KafkaSettings(bootstrap="localhost:9092", input="predictions", create_topics=True),
            Tumbling(count=1000),
        )
        monitor.run()    # until monitor.stop(), in another thread or a signal handler
    """

    def __init__(
        self,
        profile: SourceProfile,
        settings: KafkaSettings,
        window: Window = _DEFAULT_WINDOW,
        estimator: str | Estimator = "auto",
        *,
        adopt: bool = False,
        client_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        unknown = options.keys() - {"level", "alarm", "check", "max_rows", "top_k", "max_keys"}
        if unknown:
            raise InputError(f"options: {sorted(unknown)[0]!r} is none of KafkaMonitor's")
        self.settings = settings
        self._connection = _connection(settings, client_options)
        self._topics = _topics(settings)
        blueprint = Blueprint(profile, window, estimator, options)
        blueprint.make()  # what is wrong with the settings is better known now
        self._restorer = Restorer(
            blueprint,
            _decoder(profile, settings),
            self._topics.changelog,
            settings.start,
            settings.on_retention_loss,
            adopt,
        )
        self._asked = False
        self.worker: Worker | None = None  # since `run`
        self.operation: Operation | None = None

    def run(self) -> None:
        """Watch until `stop`; then finish the batch, commit, and leave the group."""
        settings = self.settings
        check_reach(settings.bootstrap, self._connection.options)
        partitions = check_topics(self._connection, self._topics, create=settings.create_topics)
        membership = Membership(
            settings.group,
            settings.instance,
            settings.assignment,
            settings.session_timeout,
            settings.commit_every,
            settings.transaction_timeout,
        )
        self.worker = Worker(
            self._connection,
            self._topics,
            partitions,
            membership,
            self._restorer,
            lambda: self._asked,
        )
        operation = self.operation = Operation(settings, self.worker)
        self.worker.on_committed = operation.committed
        try:
            self.worker.run()
        finally:
            operation.close()

    def stop(self) -> None:
        """Have `run` end, soon."""
        self._asked = True

    @property
    def total(self) -> Counts:
        """What this process took, since `run`."""
        return Counts() if self.worker is None else self.worker.total

    @property
    def counts(self) -> dict[int, Counts]:
        """What each partition brought, of those that this process has now."""
        tasks = {} if self.worker is None else self.worker.tasks
        return {partition: task.counts for partition, task in list(tasks.items())}


def reset(settings: KafkaSettings, client_options: dict[str, Any] | None = None) -> None:
    """Forget the state and the offsets of a group that nobody is a member of."""
    connection = _connection(settings, client_options)
    check_reach(connection.bootstrap, connection.options)
    forget(connection, _topics(settings), settings.group)


def _connection(settings: KafkaSettings, more: dict[str, Any] | None) -> Connection:
    return Connection(settings.bootstrap, {**settings.client_options(), **(more or {})})


def _topics(settings: KafkaSettings) -> Topics:
    return Topics(
        settings.input, settings.updates, settings.letters_topic, settings.changelog_topic
    )


def _decoder(profile: SourceProfile, settings: KafkaSettings) -> RecordDecoder:
    fields = Fields(
        None if settings.scores == "none" else settings.scores,
        settings.time,
        None if settings.key == "none" else settings.key,
    )
    return RecordDecoder(
        profile,
        fields,
        message_key=settings.key is None,
        message_time=settings.time is None,
        content_type=JSON if settings.content_type == "json" else FLOAT32,
    )
