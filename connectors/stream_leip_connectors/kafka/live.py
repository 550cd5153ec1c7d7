"""The newest prior of every key, in a process that only reads updates."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from stream_leip import InputError, SourceProfile
from stream_leip.adapt import adapt
from stream_leip.arrays import Rows, Vector
from stream_leip.rows import ScoresLike
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.following import Follower
from stream_leip_connectors.kafka.records import Record

log = logging.getLogger(__name__)

# Seconds from one line about records that cannot be used to the next.
_AGAIN = 60.0


class _Update(msgspec.Struct):
    """Of an update's JSON, what adapting needs."""

    schema: int
    classes: tuple[str, ...]
    key: str | None = None
    model: str | None = None
    prior: list[float] | None = None
    weights: list[float] | None = None
    adapting_prior: list[float] | None = None


class _Held(NamedTuple):
    prior: Vector
    written: float
    value: bytes


class LivePrior:
    """Follows a topic of updates in the background, and adapts posteriors to the newest prior.

    Nothing here waits for the broker but `wait` and the beginning of a `with`, so `adapt` may be
    called from asyncio as it is. A key without an update has the source's prior: adapting changes
    nothing there.

    Parameters
    ----------
    profile
        The one that the updates are made with.
    bootstrap, topic
        Where the updates are.
    model
        Which one's updates to take, where a topic has those of several.
    max_age
        Seconds after which an update is not used any more, and the source's prior is.
    timeout
        Seconds that the beginning of a `with` waits until what is there has been read.
    clock
        Epoch seconds now.
    client
        More settings of kafka-python's consumer, as `security_protocol`.

    Examples
    --------
    ::

        with LivePrior(profile, "localhost:9092", "priors") as live:
            for message in consumer:
                posteriors = live.adapt(scores_of(message), key="shop-7")

        async with LivePrior(profile, "localhost:9092", "priors") as live:
            async for message in consumer:
                posteriors = live.adapt(scores_of(message), key="shop-7")
    """

    def __init__(
        self,
        profile: SourceProfile,
        bootstrap: str,
        topic: str,
        *,
        model: str | None = None,
        max_age: float | None = None,
        timeout: float = 30.0,
        clock: Callable[[], float] = time.time,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        if max_age is not None and not max_age > 0:
            raise InputError(f"max_age: {max_age!r}; use seconds above zero, or None")
        self._profile = profile
        self._model = model
        self._max_age = max_age
        self._timeout = timeout
        self._clock = clock
        self._decoder = msgspec.json.Decoder(_Update)
        self._held: dict[str | None, _Held] = {}
        self._names: dict[bytes, str | None] = {}
        connection = Connection(bootstrap, client or {})
        self._follower = Follower(make_client("kafka-python", connection), topic, self._take)
        self._refused = 0
        self._quiet = 0.0  # until then

    @property
    def error(self) -> str | None:
        """Why updates cannot be read now; None while all is well."""
        return self._follower.error

    @property
    def refused(self) -> int:
        """Records of the topic that are no updates of this profile; the log says why."""
        return self._refused

    @property
    def keys(self) -> list[str | None]:
        """The keys that have an update; None stands for a stream without keys."""
        return list(self._held)

    def adapt(self, scores: ScoresLike, key: str | None = None) -> Rows:
        """Posteriors under the newest mix of a key."""
        profile = self._profile
        return adapt(profile.rows(scores), self.prior(key), profile.soft_prior)

    def prior(self, key: str | None = None) -> Vector:
        """The prior that `adapt` uses for a key: of its newest update, or the source's."""
        held = self._held.get(key)
        if held is None or (
            self._max_age is not None and self._clock() - held.written > self._max_age
        ):
            return self._profile.soft_prior
        return held.prior.copy()

    def update(self, key: str | None = None) -> dict[str, Any] | None:
        """The newest update of a key, as docs/update.schema.json has it."""
        held = self._held.get(key)
        if held is None:
            return None
        found: dict[str, Any] = msgspec.json.decode(held.value)
        return found

    def age(self, key: str | None = None) -> float | None:
        """Seconds since the newest update of a key was written; None if it has none."""
        held = self._held.get(key)
        return None if held is None else max(0.0, self._clock() - held.written)

    def start(self) -> None:
        """Begin to follow the topic."""
        self._follower.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until what was in the topic at the start has been read; BrokerError if it is not."""
        self._follower.wait(self._timeout if timeout is None else timeout)

    def close(self) -> None:
        """Follow no longer; what is held stays."""
        self._follower.close()

    def __enter__(self) -> "LivePrior":
        self.start()
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> "LivePrior":
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def _refuse(self, offset: int, why: Exception) -> None:
        self._refused += 1
        now = time.monotonic()
        if now < self._quiet:  # a topic of another profile has nothing else
            return
        self._quiet = now + _AGAIN
        log.warning(
            "records that are no updates of this profile, by now %d; one, at offset %d: %s",
            self._refused,
            offset,
            why,
        )

    def _take(self, record: Record) -> None:
        if record.value is None:
            # A tombstone has the message's key alone.
            self._held.pop(self._names.pop(record.key or b"", None), None)
            return
        try:
            update = self._decoder.decode(record.value)
            if self._model is not None and update.model not in (None, self._model):
                return  # another reader's
            prior = self._checked(update)
        except (msgspec.MsgspecError, InputError, ValueError) as error:
            self._refuse(record.offset, error)
            return
        if prior is not None:
            self._names[record.key or b""] = update.key
            self._held[update.key] = _Held(prior, record.timestamp / 1000, record.value)

    def _checked(self, update: _Update) -> Vector | None:
        """The prior to adapt with; None where the update had nothing in scope."""
        profile = self._profile
        if update.model != self._model:
            raise InputError(f"of model {update.model!r}; name the one to follow with model=")
        if update.schema != 1:
            raise InputError(f"schema {update.schema}; this version reads 1, install a newer one")
        if update.classes != profile.classes:
            raise InputError(f"its classes are {', '.join(update.classes[:10])}")
        if update.adapting_prior is None:
            return None
        prior = np.array(update.adapting_prior)
        if (
            prior.shape != profile.soft_prior.shape
            or min(prior) < 0
            or not abs(sum(prior) - 1) < 1e-3
        ):
            raise InputError("its adapting_prior is no distribution over the classes")
        if update.prior is not None and update.weights is not None:
            made = np.array(update.weights) * profile.soft_prior
            if not np.allclose(made, update.prior, atol=1e-6):
                raise InputError("its weights are of another source prior: another profile's")
        return prior
