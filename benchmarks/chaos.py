"""Kills, rebalances and broker restarts under load: every update must be there, once.

    python -m benchmarks.chaos                                      # 10 kills
    python -m benchmarks.chaos --kills 100 --rebalances 50 --restarts 5
    python -m benchmarks.chaos --scope topic --window "tumbling 2s lateness 1s"

Two workers share 8 partitions and 30 keys while events come in. Workers are killed with SIGKILL at
random moments and started again, others come for a while and are stopped with SIGTERM, and the
broker restarts. In the end the updates, read as committed, are held against those of a KeyedMonitor
that was fed the same events in the order of their partitions, or for the scope of the whole topic
against those of one monitor fed all of them in order: none may be missing, none there twice, none
different. With `--delivery at-least-once` some may be there twice, each as it was.
"""

import argparse
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any

from rich.console import Console
from stream_leip_connectors.kafka.local import LocalBroker

from benchmarks import chaos_worker as work

TOPIC, UPDATES, GROUP = "predictions", "priors", "chaos"
PARTITIONS, KEYS = 8, 30


@dataclass(frozen=True)
class Plan:
    """What is to happen."""

    kills: int = 10
    rebalances: int = 2
    restarts: int = 1
    rate: int = 2000
    window: str = "sliding 200 every 50"
    assignment: str = "cooperative"
    scope: str = "key"
    commit: float = 0.1
    client: str = "kafka-python"
    delivery: str = "exactly-once"
    seed: int = 0


@dataclass
class Outcome:
    """What happened."""

    plan: Plan
    kills: int = 0
    rebalances: int = 0
    restarts: int = 0
    events: int = 0
    updates: int = 0
    missing: int = 0
    twice: int = 0
    wrong: int = 0
    seconds: float = 0.0
    stopped: list[float] = field(default_factory=list)
    exit_codes: list[int | None] = field(default_factory=list)

    def __str__(self) -> str:
        slowest = f"{max(self.stopped):.1f} s" if self.stopped else "-"
        return (
            f"{self.plan.scope}, {self.plan.window}, {self.plan.assignment}, {self.plan.client}, "
            f"{self.plan.delivery}: {self.kills} kills, {self.rebalances} "
            f"workers added and removed, {self.restarts} broker restarts in {self.seconds:.0f} s; "
            f"{self.events} events, {self.updates} updates: {self.missing} missing, {self.twice} "
            f"twice, {self.wrong} wrong; slowest SIGTERM {slowest}"
        )


class Producing(threading.Thread):
    """Writes events at a rate until it is told to end."""

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        super().__init__(daemon=True)
        self._broker, self._plan = bootstrap, plan
        self._enough = threading.Event()
        self.events = 0

    def run(self) -> None:
        """Write."""
        from kafka import KafkaProducer  # noqa: PLC0415

        producer = KafkaProducer(bootstrap_servers=self._broker, linger_ms=20)
        messages = work.messages(self._plan.seed, KEYS)
        due = time.monotonic()
        while not self._enough.is_set():
            for _ in range(self._plan.rate // 20):
                producer.send(TOPIC, **next(messages))
                self.events += 1
            due += 0.05
            time.sleep(max(0.0, due - time.monotonic()))
        producer.flush()
        producer.close()

    def end(self) -> None:
        """Write no more, and wait until all is written."""
        self._enough.set()
        self.join()


class Crew:
    """The workers: each is a process of its own."""

    def __init__(self, bootstrap: str, plan: Plan) -> None:
        # Forked from a process that has everything imported: a start takes no time.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["benchmarks.chaos_worker"])
        self._bootstrap, self._plan = bootstrap, plan
        self.processes: dict[str, BaseProcess] = {}

    def start(self, name: str, instance: str | None) -> None:
        """Start a worker."""
        settings = {
            "bootstrap": self._bootstrap,
            "input": TOPIC,
            "updates": UPDATES,
            "group": GROUP,
            "instance": instance,
            "create_topics": True,
            "commit_every": self._plan.commit,
            "session_timeout": 2.0,
            "transaction_timeout": 4.0,
            "assignment": self._plan.assignment,
            "scope": self._plan.scope,
            "client": self._plan.client,
            "delivery": self._plan.delivery,
        }
        process = self._context.Process(target=work.run, args=(settings, self._plan.window))
        process.start()
        self.processes[name] = process

    def kill(self, name: str) -> None:
        """End a worker with SIGKILL."""
        process = self.processes.pop(name)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()

    def stop(self, name: str) -> tuple[float, int | None]:
        """Seconds that it took, and the exit code."""
        process = self.processes.pop(name)
        began = time.monotonic()
        process.terminate()
        process.join(30)
        return time.monotonic() - began, process.exitcode

    def reference(self) -> list[dict[str, Any]]:
        """The updates of an undisturbed KeyedMonitor, in a process like the workers."""
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=work.reference,
            args=(self._bootstrap, TOPIC, self._plan.window, self._plan.scope, sender),
        )
        process.start()
        found: list[dict[str, Any]] = receiver.recv()
        process.join()
        return found


@contextmanager
def crew(bootstrap: str, plan: Plan) -> Iterator[Crew]:
    made = Crew(bootstrap, plan)
    try:
        yield made
    finally:
        for process in made.processes.values():
            process.kill()
            process.join()


def chaos(broker: LocalBroker, plan: Plan) -> Outcome:
    """Let everything happen, in random order, and count."""
    work.create(broker.bootstrap, TOPIC, PARTITIONS)
    rng = random.Random(plan.seed)
    outcome = Outcome(plan)
    began = time.monotonic()
    happenings = (
        ["kill"] * plan.kills + ["rebalance"] * plan.rebalances + ["restart"] * plan.restarts
    )
    rng.shuffle(happenings)
    producing = Producing(broker.bootstrap, plan)
    with crew(broker.bootstrap, plan) as workers:
        # One static member, which comes back under its name, and one dynamic one.
        names: dict[str, str | None] = {"static": "one", "dynamic": None}
        for name, instance in names.items():
            workers.start(name, instance)
        producing.start()
        time.sleep(3.0)
        for happening in happenings:
            time.sleep(rng.uniform(0.1, 2.5))
            if happening == "kill":
                name = rng.choice(list(names))
                workers.kill(name)
                outcome.kills += 1
                time.sleep(rng.uniform(0.0, 0.5))
                workers.start(name, names[name])
            elif happening == "rebalance":
                workers.start("extra", None)
                time.sleep(rng.uniform(1.0, 3.0))
                seconds, code = workers.stop("extra")
                outcome.stopped.append(seconds)
                outcome.exit_codes.append(code)
                outcome.rebalances += 1
            else:
                if rng.random() < 0.5:
                    broker.kill()
                    broker.start()
                else:
                    broker.restart()
                outcome.restarts += 1
        producing.end()
        work.wait_until_read(broker.bootstrap, TOPIC, GROUP)
        wanted = workers.reference()
        if plan.scope == "topic":  # what the other half has done, no offset tells
            work.wait_until_written(broker.bootstrap, UPDATES, len(wanted))
        for name in list(names):
            seconds, code = workers.stop(name)
            outcome.stopped.append(seconds)
            outcome.exit_codes.append(code)
    outcome.events = producing.events
    outcome.seconds = time.monotonic() - began
    _compare(outcome, work.updates(broker.bootstrap, UPDATES), wanted)
    return outcome


def _compare(outcome: Outcome, found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    ours = {(each["key"], each["sequence"]): each for each in found}
    theirs = {(each["key"], each["sequence"]): each for each in wanted}
    outcome.updates = len(wanted)
    outcome.twice = len(found) - len(ours)
    outcome.missing = len(theirs.keys() - ours.keys())
    # One that came again must be as it was.
    outcome.wrong = sum(each != theirs.get((each["key"], each["sequence"])) for each in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rebalances", type=int, default=2)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--window", default="sliding 200 every 50")
    parser.add_argument("--assignment", default="cooperative")
    parser.add_argument("--scope", default="key")
    parser.add_argument("--commit", type=float, default=0.1)
    parser.add_argument("--client", default="kafka-python")
    parser.add_argument("--delivery", default="exactly-once")
    parser.add_argument("--seed", type=int, default=0)
    plan = Plan(**vars(parser.parse_args()))
    with LocalBroker() as broker:
        Console().print(str(chaos(broker, plan)), soft_wrap=True)


if __name__ == "__main__":
    main()
