"""Where updates come from: a file that grows, a Kafka topic, or a replay. Each runs in a thread."""

import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from stream_leip import InputError, SnapshotError
from stream_leip.replay import Point, to_record
from stream_leip_connectors.dashboard.streams import Streams
from stream_leip_connectors.sources import LONGEST, FileSource

State = Literal["following", "waiting", "gone", "ended"]
_PAUSE = 0.3
# Seconds without an update until brokers are looked for, and that one may take to answer.
_SILENCE, _PATIENCE = 5.0, 2.0
# Seconds between two counts of what is not yet read of a topic.
_COUNT_EVERY = 1.0
# Of a file that is longer, this much is read, counted from its end.
TAIL_BYTES = 1 << 28
# Lines that are taken at a time: the page may look in between.
_BATCH = 200
Clock = Callable[[], float]


class Health(NamedTuple):
    """How a source is: its state, what to say of it, and how much of it is not yet read."""

    state: State
    text: str
    unread: str = ""


class Feed(Protocol):
    """A source of updates."""

    @property
    def name(self) -> str:
        """What it is, for people."""

    @property
    def settings(self) -> Mapping[str, Mapping[str, str]]:
        """Of each monitor, by its name, where they are known."""

    def health(self) -> Health:
        """How it is now."""

    def run(self, streams: Streams, stop: threading.Event) -> None:
        """Hand over updates until asked to stop; what goes wrong outside is waited for."""


@contextmanager
def running(feed: Feed, streams: Streams) -> Iterator[None]:
    """Run a feed in a thread of its own."""
    stop = threading.Event()
    thread = threading.Thread(target=feed.run, args=(streams, stop), name="feed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10.0)


class FileFeed:
    """Updates as JSON lines in a file that may grow, be rotated, go and come back.

    Parameters
    ----------
    path
        The file; it need not be there yet.
    tail_bytes
        Of a file that is longer when it is found, only the lines in its last bytes are read.
    clock
        Epoch seconds now.
    """

    def __init__(self, path: Path, tail_bytes: int = TAIL_BYTES, clock: Clock = time.time) -> None:
        self.name = str(path)
        self.settings: Mapping[str, Mapping[str, str]] = {}
        self._path = path
        self._tail_bytes = tail_bytes
        self._clock = clock
        self._health = Health("waiting", f"waiting for {path}")

    def health(self) -> Health:
        """How the file is."""
        return self._health

    def run(self, streams: Streams, stop: threading.Event) -> None:
        """Read what is there, and then what comes."""
        seen = False
        while not stop.is_set():
            try:
                source, skipped = self._open()
            except InputError as error:
                state: State = "gone" if seen else "waiting"
                self._health = Health(state, f"{error}; waiting for it")
                stop.wait(_PAUSE)
                continue
            seen = True
            try:
                self._follow(source, skipped, streams, stop)
            except (InputError, OSError) as error:
                self._health = Health("gone", f"{error}; trying again")
                stop.wait(_PAUSE)
            finally:
                source.close()

    def _open(self) -> tuple[FileSource, int]:
        """The file, and how many bytes of its beginning are passed over."""
        try:
            with self._path.open("rb") as file:
                begin = file.seek(0, os.SEEK_END) - self._tail_bytes
                if begin > 0:
                    file.seek(begin - 1)  # a line that begins just there is whole
                    file.readline(LONGEST)
                    begin = file.tell()
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {error.strerror or error}") from error
        if begin <= 0:
            return FileSource(self._path, follow=True), 0
        nothing = {"position": begin, "checked": 0, "checksum": zlib.crc32(b"")}
        try:
            return FileSource(self._path, follow=True, mark=nothing), begin
        except SnapshotError as error:  # cut short since it was looked at
            raise InputError(str(error)) from error

    def _follow(
        self, source: FileSource, skipped: int, streams: Streams, stop: threading.Event
    ) -> None:
        while not stop.is_set():
            block = source.read()
            try:
                left = self._path.stat().st_size - source.position
                unread = f"{left / 1e6:,.1f} MB" if left > 1_000_000 else ""
                # A file that was rotated is read whole.
                older = skipped if not source.rotated else 0
                passed = f" without its first {older / 1e6:,.1f} MB" if older else ""
                self._health = Health("following", f"following {self._path}{passed}", unread)
            except OSError as error:
                why = error.strerror or str(error)
                self._health = Health("gone", f"{self._path}: {why}; waiting for it to come back")
            lines = [line for line in (block or b"").split(b"\n") if line.strip()]
            for begin in range(0, len(lines), _BATCH):
                streams.take(lines[begin : begin + _BATCH], self._clock())


class KafkaFeed:
    """Updates in a Kafka topic, from its beginning on.

    Parameters
    ----------
    bootstrap, topic
        Where they are; neither need be there yet.
    client
        More settings of kafka-python's consumer, as `security_protocol`.
    clock
        Epoch seconds now.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        client: Mapping[str, Any] | None = None,
        clock: Clock = time.time,
    ) -> None:
        # The extra has Kafka's client; a file or a replay needs none.
        from stream_leip_connectors.kafka.clients import make_client  # noqa: PLC0415
        from stream_leip_connectors.kafka.connection import Connection  # noqa: PLC0415
        from stream_leip_connectors.kafka.following import Follower  # noqa: PLC0415

        self.name = f"{topic} at {bootstrap}"
        self._places = [place.strip().rpartition(":") for place in bootstrap.split(",")]
        self._away = False
        self.settings: Mapping[str, Mapping[str, str]] = {}
        self._clock = clock
        self._lines: list[bytes] = []
        self._lock = threading.Lock()
        self._streams: Streams | None = None
        self._seen = False
        connection = Connection(bootstrap, client or {})
        made = make_client("kafka-python", connection)
        self._follower = Follower(made, topic, self._note, count_every=_COUNT_EVERY)

    def health(self) -> Health:
        """How the topic is."""
        error = "nobody answers" if self._away else self._follower.error
        if error is not None:
            state: State = "gone" if self._seen else "waiting"
            return Health(state, f"{self.name} cannot be read ({error}); trying again")
        left = self._follower.unread
        return Health("following", f"following {self.name}", f"{left:,} records" if left else "")

    def run(self, streams: Streams, stop: threading.Event) -> None:
        """Follow the topic in the follower's thread; this one sees that nothing lies about."""
        self._streams = streams
        self._follower.start()
        try:
            looked = time.monotonic()
            while not stop.wait(_PAUSE / 3):
                if self._take():
                    self._away = False
                    looked = time.monotonic()
                elif time.monotonic() - looked > _SILENCE:
                    # A client waits for brokers that are away, and tells nobody.
                    self._away = not any(_answers(*place) for place in self._places)
                    looked = time.monotonic()
        finally:
            self._follower.close()

    def _note(self, record: Any) -> None:
        if record.value is None:  # a tombstone tells nothing of a mix
            return
        self._lines.append(record.value)
        if len(self._lines) >= _BATCH:
            self._take()

    def _take(self) -> bool:
        with self._lock:
            lines, self._lines = self._lines, []
            if lines and self._streams is not None:
                self._seen = True
                self._streams.take(lines, self._clock())
        return bool(lines)


def _answers(host: str, _: str, port: str) -> bool:
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, ValueError):
        return False
    return True


Report = Callable[[str, Point], None]
Progress = Callable[[int, int], None]


class _Stopped(Exception):
    """The page is closed."""


class ReplayFeed:
    """A simulated drift, at a pace that people can follow.

    Parameters
    ----------
    name
        In words.
    begin
        Runs the replay; it is given what to call with each update and with its progress.
    pace
        Events a second.
    settings
        Of each monitor, by its name.
    clock
        Epoch seconds now.
    """

    def __init__(
        self,
        name: str,
        begin: Callable[[Report, Progress], object],
        pace: float,
        settings: Mapping[str, Mapping[str, str]],
        clock: Clock = time.time,
    ) -> None:
        self.name = name
        self.settings = settings
        self._begin = begin
        self._pace = pace
        self._clock = clock
        self._health = Health("waiting", f"{name} begins")

    def health(self) -> Health:
        """How far it is."""
        return self._health

    def run(self, streams: Streams, stop: threading.Event) -> None:
        """Replay to the end."""
        begun = time.monotonic()

        def on_update(name: str, point: Point) -> None:
            streams.take([msgspec.json.encode(to_record(name, point))], self._clock())

        def progress(done: int, total: int) -> None:
            self._health = Health("following", f"{self.name}: event {done:,} of {total:,}")
            if stop.wait(max(0.0, begun + done / self._pace - time.monotonic())):
                raise _Stopped

        try:
            self._begin(on_update, progress)
        except _Stopped:
            return
        except Exception as error:
            self._health = Health("ended", f"{self.name} broke off: {error}")
            raise
        self._health = Health("ended", f"{self.name} is over; start it again to see more")
