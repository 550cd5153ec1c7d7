"""Several models on one topic: each event names its own, and each model has monitors of its own.

Keys are qualified by the model, MODEL:KEY, wherever streams are told apart: in the state, in
metrics and notices, and as the keys of the update topic.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from stream_leip import InputError, Update
from stream_leip_connectors.config import WrongUsage
from stream_leip_connectors.events import Bad, encode_update
from stream_leip_connectors.kafka.blueprint import Identity
from stream_leip_connectors.kafka.changelog import Contents, Head, Log, Place, head_bytes
from stream_leip_connectors.kafka.corruption import CorruptBatch
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.dead_letters import corrupt_letter, dead_letter
from stream_leip_connectors.kafka.errors import StateError
from stream_leip_connectors.kafka.records import Message, Record, Records, last_header
from stream_leip_connectors.kafka.restoring import Restorer, Situation
from stream_leip_connectors.kafka.task import Task

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def check_names(names: Sequence[str]) -> None:
    """WrongUsage if a model's name could not stand before the colon of a key."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise WrongUsage(
                f"models: {name!r} is no name for a model; use letters, digits, '.', '_' and '-'"
            )


class Sorter:
    """Tells whose a record is: by a header, or by a field of its JSON.

    Parameters
    ----------
    header, field
        Its name; one of them.

    Examples
    --------
    >>> from types import SimpleNamespace as record
    >>> from stream_leip_connectors.kafka.models import Sorter
    >>> records = [record(value=b'{"model": "v7", "scores": []}'), record(value=b"{}")]
    >>> Sorter(field="model").sort(records)
    ({'v7': [0]}, [(1, "model: the field 'model' is missing; it names the profile")])
    """

    def __init__(self, header: str | None = None, field: str | None = None) -> None:
        if (header is None) == (field is None):
            raise InputError("model_field, model_header: name one of them, and only one")
        self._header = header
        self._field = field
        shape = msgspec.defstruct(
            "Named", [("model", str | int | None, None)], rename={"model": field or "model"}
        )
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)

    def sort(self, records: Records) -> tuple[dict[str, list[int]], list[Bad]]:
        """Where each model's records stand, and those that name none."""
        found: dict[str, list[int]] = {}
        odd: list[Bad] = []
        for place, record in enumerate(records):
            try:
                name = self._name(record)
            except InputError as error:
                odd.append((place, str(error)))
            else:
                found.setdefault(name, []).append(place)
        return found, odd

    def _name(self, record: Record) -> str:
        if self._header is not None:
            held = last_header(record.headers, self._header)
            if held is None:
                raise InputError(f"model: no header {self._header!r}; it names the profile")
            return held.decode(errors="replace")
        try:
            name = self._decoder.decode(record.value or b"").model
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"model: the field {self._field!r} cannot be read: {error}") from error
        if name is None:
            raise InputError(f"model: the field {self._field!r} is missing; it names the profile")
        return str(name)


class ModelsTask:
    """A partition's tasks, one for each model, that go through its records together.

    Parameters
    ----------
    identity
        Whose they are.
    tasks
        By model.
    sorter
        Tells whose a record is.
    unknown
        Counts of records that are of none of the models.
    """

    def __init__(
        self,
        identity: Identity,
        tasks: Mapping[str, Task],
        sorter: Sorter,
        unknown: Counts | None = None,
    ) -> None:
        self.identity = identity
        self.keyed = _Keys(tasks)
        self.newest: int | None = None
        self.dirty = any(task.dirty for task in tasks.values())
        self._tasks = dict(tasks)
        self._sorter = sorter
        self._unknown = Counts() if unknown is None else unknown
        self._letters: list[Message] = []
        self._log = Log()
        self.committed = self.counts

    @property
    def offset(self) -> int:
        """The first record to take; the same for all."""
        return next(iter(self._tasks.values())).offset

    @property
    def counts(self) -> Counts:
        """Of all models, and of records that are of none."""
        total = replace(self._unknown)
        for task in self._tasks.values():
            total.add(task.counts, Counts())
        # What retention took, no model has seen, and each has counted.
        total.lost = max(task.counts.lost for task in self._tasks.values())
        return total

    @property
    def updates(self) -> list[Update]:
        """That wait for a commit."""
        return [update for task in self._tasks.values() for update in task.updates]

    @property
    def letters(self) -> list[Message]:
        """Dead letters that wait for a commit."""
        return [
            *self._letters,
            *(letter for task in self._tasks.values() for letter in task.letters),
        ]

    def take(self, records: Records) -> None:
        """Give each model its records; those of no model become dead letters."""
        found, odd = self._sorter.sort(records)
        for name, places in found.items():
            task = self._tasks.get(name)
            if task is None:
                known = ", ".join(self._tasks)
                why = f"model: {name!r} is unknown; there are {known} (--profile NAME=PATH)"
                odd += [(place, why) for place in places]
            else:
                task.take(records.some(places))
        self._unknown.events += len(odd)
        self._unknown.bad += len(odd)
        self._letters += [dead_letter(records[place], why) for place, why in sorted(odd)]
        self.newest = records.timestamps[-1]
        self._go_to(records.offsets[-1] + 1)

    def told(self) -> list[Any]:
        """What people were told of the keys of all models."""
        return [each for task in self._tasks.values() for each in task.told()]

    def advance(self, now: float, *, at_end: bool) -> None:
        """Time goes on, by a clock."""
        for task in self._tasks.values():
            task.advance(now, at_end=at_end)
            self.dirty = self.dirty or task.dirty

    def skip(self, batch: CorruptBatch) -> None:
        """Leave out records that nobody can read."""
        self._letters.append(corrupt_letter(*batch))
        self._unknown.bad += batch.last + 1 - self.offset
        self._go_to(batch.last + 1)

    def _go_to(self, offset: int) -> None:
        self.dirty = True
        for task in self._tasks.values():
            task.offset = offset

    def outputs(self, updates: str, letters: str | None) -> Iterator[tuple[str, Message]]:
        """The updates, which say their model, and the dead letters, each with its topic."""
        for name, task in self._tasks.items():
            for update in task.learn():
                bare = replace(update, key=str(update.key)[len(name) + 1 :])
                value = encode_update(bare, model=name)
                yield updates, Message(str(update.key).encode(), value, [])
        buried, self._letters = self._letters, []
        if letters is not None:
            yield from ((letters, letter) for letter in buried)
        for task in self._tasks.values():
            yield from task.outputs(updates, letters)

    def changes(self) -> Iterator[Message]:
        """What changed of each model, and the head of all."""
        for task in self._tasks.values():
            yield from task.changes()
        self._log.put(Place("head"), head_bytes(self._head()))
        self.dirty = False
        yield from self._log.drain()

    def _head(self) -> Head:
        identity = self.identity
        models = {name: task.profile for name, task in self._tasks.items()}
        return Head(
            self.offset,
            identity.application,
            identity.topic,
            identity.partitions,
            "",
            {"models": models},
            0,
            vars(self._unknown).copy(),
        )


class ModelsRestorer:
    """Makes the tasks of partitions with several models.

    Parameters
    ----------
    restorers
        One for each model, by its name.
    sorter
        Tells whose a record is.
    """

    def __init__(self, restorers: Mapping[str, Restorer], sorter: Sorter) -> None:
        self._restorers = dict(restorers)
        self._sorter = sorter

    @property
    def clocked(self) -> bool:
        """Whether its tasks go by a clock too."""
        return any(each.clocked for each in self._restorers.values())

    def task(self, identity: Identity, found: Situation, contents: Contents) -> ModelsTask:
        """The tasks as the last committed transaction left them; StateError if they cannot be."""
        head = contents.head()
        known: dict[str, str] = {}
        if head is not None:
            known = self._known(identity, head)
        tasks = {
            name: self._of(name, restorer, identity, found, contents, name in known or not head)
            for name, restorer in self._restorers.items()
        }
        unknown = None if head is None else Counts(**head.counts)
        return ModelsTask(identity, tasks, self._sorter, unknown)

    def _of(
        self,
        name: str,
        restorer: Restorer,
        identity: Identity,
        found: Situation,
        contents: Contents,
        known: bool,
    ) -> Task:
        mine = replace(identity, model=name)
        if known:
            # Where nothing is known of any model, all that is there is somebody else's.
            there = contents.of(name) if contents.head() else contents
            return restorer.task(mine, found, there)
        # A model that is new begins where the others are.
        return restorer.begin(mine, found.committed or 0)

    def _known(self, identity: Identity, head: Head) -> dict[str, str]:
        """The models of the state; StateError if it is of others, or of one without a name."""
        changelog = next(iter(self._restorers.values())).changelog
        models: dict[str, str] | None = head.settings.get("models")
        if models is None:
            raise StateError(
                f"{changelog}: the state of one model without a name; run it as it was, or begin "
                "anew with 'stream-leip kafka reset'"
            )
        gone = sorted(models.keys() - self._restorers.keys())
        if gone:
            raise StateError(
                f"{changelog}: the state of model {gone[0]!r}, which no --profile names; name it, "
                "or begin anew with 'stream-leip kafka reset'"
            )
        return models


class _Keys:
    """The keys of all models."""

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks

    def __len__(self) -> int:
        return sum(len(task.keyed) for task in self._tasks.values())

    def __contains__(self, key: object) -> bool:
        return any(key in task.keyed for task in self._tasks.values())
