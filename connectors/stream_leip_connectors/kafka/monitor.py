"""The Kafka connector as a library: a monitor for each key of a topic."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from stream_leip import Adaptive, InputError, SourceProfile
from stream_leip.estimators import Estimator
from stream_leip.windows import Window
from stream_leip_connectors.config import KafkaSettings, WrongUsage
from stream_leip_connectors.events import FLOAT32, JSON, Fields
from stream_leip_connectors.kafka.application import Membership, Topics
from stream_leip_connectors.kafka.blueprint import Blueprint
from stream_leip_connectors.kafka.client import Client
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.merging import MergeTask
from stream_leip_connectors.kafka.models import ModelsRestorer, Sorter, check_names
from stream_leip_connectors.kafka.operating import Operation
from stream_leip_connectors.kafka.outage import wait_for
from stream_leip_connectors.kafka.restoring import Restorer
from stream_leip_connectors.kafka.slicing import SliceTask
from stream_leip_connectors.kafka.topics import (
    administering,
    check_panes,
    check_topics,
    delete_topic,
    forget,
)
from stream_leip_connectors.kafka.whole import (
    check_window,
    in_order,
    lateness_of,
    merge_group,
    run_both,
    topics_of,
)
from stream_leip_connectors.kafka.worker import Worker
from stream_leip_connectors.kafka.working import Making

_DEFAULT_WINDOW = Adaptive()


class KafkaMonitor:
    """Watches a topic of predictions, and writes prior updates to another, exactly once.

    Parameters
    ----------
    profile, window, estimator
        As for `KeyedMonitor`. Where a topic has several models: their profiles, by name; settings
        then say by which field or header events name their model.
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
        profile: SourceProfile | Mapping[str, SourceProfile],
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
        self._client = _client(settings, client_options)
        self._whole = settings.scope == "topic"
        self._topics = _topics(settings)
        _check_fit(settings, window, several=not isinstance(profile, SourceProfile))

        def restorer(profile: SourceProfile, window: Window = window, **more: Any) -> Restorer:
            blueprint = Blueprint(profile, window, estimator, options)
            blueprint.make()  # what is wrong with the settings is better known now
            self._warm_up = blueprint.warm_up
            return Restorer(
                blueprint,
                _decoder(profile, settings),
                self._topics.changelog,
                settings.start,
                settings.on_retention_loss,
                adopt,
                None if self._whole else settings.idle,
                settings.delivery,
                **more,
            )

        self._restorer: Making
        by_model = settings.model_field is not None or settings.model_header is not None
        if isinstance(profile, SourceProfile):
            if by_model:
                raise WrongUsage("model_field, model_header: there is one profile; name each model")
            self._restorer = restorer(profile)
            if self._whole:
                if adopt:
                    raise WrongUsage(
                        "adopt: rows of the old profile may wait in the panes topic; with scope "
                        "topic begin anew with 'stream-leip kafka reset', or another group"
                    )
                late, quiet = lateness_of(window, settings), settings.idle
                slicing = partial(SliceTask, lateness=late, quiet=quiet)
                self._restorer = restorer(profile, kind=slicing)
                self._merging = partial(restorer, profile, in_order(window))
        else:
            check_names(list(profile))
            sorter = Sorter(settings.model_header, settings.model_field)
            made = {name: restorer(each) for name, each in profile.items()}
            self._restorer = ModelsRestorer(made, sorter)
        self._asked = False
        self.worker: Worker | None = None  # since `run`
        self.merger: Worker | None = None  # with scope topic, the other half
        self.operation: Operation | None = None

    def run(self) -> None:
        """Watch until `stop`; then finish the batch, commit, and leave the group."""
        settings = self.settings
        self._warm_up()
        if not wait_for(self._client.check_reach, settings.wait, lambda: self._asked):
            return
        membership = Membership(
            settings.group,
            settings.instance,
            settings.assignment,
            settings.session_timeout,
            settings.commit_every,
            settings.transaction_timeout,
            settings.delivery,
        )
        create = settings.create_topics
        if self._whole:
            check_panes(self._client, settings.panes_topic, create=create)
        partitions = check_topics(self._client, self._topics, create=create)

        def worker(topics: Topics, n: int, member: Membership, restorer: Making) -> Worker:
            return Worker(self._client, topics, n, member, restorer, lambda: self._asked)

        self.worker = last = worker(self._topics, partitions, membership, self._restorer)
        if self._whole:
            between = topics_of(settings)[1]
            check_topics(self._client, between, create=create)
            member = replace(membership, group=merge_group(settings))
            kind = partial(MergeTask, topic=settings.input, sources=partitions)
            made = replace(self._merging(kind=kind), changelog=between.changelog, start="earliest")
            self.merger = last = worker(between, 1, member, made)
        operation = self.operation = Operation(settings, self.worker, merging=self.merger)
        last.on_committed, last.on_restored = operation.committed, operation.restored
        try:
            if self.merger is None:
                self.worker.run()
            else:
                run_both(self.worker, self.merger, self.stop)
        finally:
            operation.close()

    def stop(self) -> None:
        """Have `run` end, soon."""
        self._asked = True

    @property
    def total(self) -> Counts:
        """What this process took, since `run`."""
        total = Counts() if self.worker is None else replace(self.worker.total)
        if self.merger is not None:
            total.updates += self.merger.total.updates
            total.late += self.merger.total.late
        return total

    @property
    def counts(self) -> dict[int, Counts]:
        """What each partition brought, of those that this process has now."""
        tasks = {} if self.worker is None else self.worker.tasks
        return {partition: task.counts for partition, task in list(tasks.items())}


def _check_fit(settings: KafkaSettings, window: Window, *, several: bool) -> None:
    """WrongUsage if settings do not go together."""
    whole = settings.scope == "topic"
    if whole:
        check_window(window)
    if whole and several:
        raise WrongUsage("scope: topic, but there are several models; run each by itself")
    if settings.delivery == "at-least-once":
        if whole or several:
            raise WrongUsage(
                "delivery: at-least-once goes with one model and scope key only; use exactly-once"
            )
        if settings.idle is not None:
            raise WrongUsage(
                f"idle: {settings.idle:g} s, but without transactions an update that the clock "
                "made may come again with other values; leave it out, or use delivery exactly-once"
            )
    if settings.idle is not None and not window.needs_time and not whole:
        raise WrongUsage(
            f"idle: {settings.idle:g} s, but windows by count end with events only; leave it "
            "out, or use a window such as 'tumbling 60s'"
        )


def reset(settings: KafkaSettings, client_options: dict[str, Any] | None = None) -> bool:
    """Forget the state and the offsets of a group that nobody is a member of.

    Whether there was a topic with its state.
    """
    client = _client(settings, client_options)
    client.check_reach()
    there = forget(client, _topics(settings), settings.group)
    if settings.scope == "topic":
        between = topics_of(settings)[1]
        forget(client, between, merge_group(settings))
        with administering(client) as admin:
            delete_topic(admin, between.input)
    return there


def _client(settings: KafkaSettings, more: dict[str, Any] | None) -> Client:
    options = {**settings.client_options(settings.client), **(more or {})}
    return make_client(settings.client, Connection(settings.bootstrap, options))


def _topics(settings: KafkaSettings) -> Topics:
    if settings.scope == "topic":
        return topics_of(settings)[0]
    return Topics(
        settings.input, settings.updates, settings.letters_topic, settings.changelog_topic
    )


def _decoder(profile: SourceProfile, settings: KafkaSettings) -> RecordDecoder:
    fields = Fields(
        None if settings.scores == "none" else settings.scores,
        settings.time,
        None if settings.key == "none" or settings.scope == "topic" else settings.key,
    )
    return RecordDecoder(
        profile,
        fields,
        message_key=settings.key is None and settings.scope == "key",
        message_time=settings.time is None,
        content_type=JSON if settings.content_type == "json" else FLOAT32,
    )
