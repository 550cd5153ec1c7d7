"""From a real broker through Spark's Kafka source to its Kafka sink."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from stream_leip_connectors.kafka import LocalBroker

from stream_leip import Sliding
from tests.spark.streams import differences, draw, expected, in_order
from tests.streams import PROFILE

pytestmark = [
    pytest.mark.needs_spark,
    pytest.mark.needs_kafka,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # py4j's
]

ROOT = Path(__file__).parents[2]
WINDOW = Sliding(seconds=20.0, every=5.0)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as mine:
        yield mine


def topics(bootstrap: str, **partitions: int) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    asked = {name: {"num_partitions": number} for name, number in partitions.items()}
    admin.create_topics(asked, wait_for_metadata=True)
    admin.close()


def test_updates_go_from_a_topic_to_a_topic(
    spark: Any, broker: LocalBroker, tmp_path: Path
) -> None:
    from kafka import KafkaConsumer, KafkaProducer
    from stream_leip_connectors.spark import bad_rows, prior_updates, to_wire

    # Kafka's times are whole milliseconds.
    millis = np.sort(np.random.default_rng(30).choice(60_000, 1500, replace=False))
    events = draw(30, 1500)._replace(micros=(1_700_000_000_000 + millis) * 1000)
    topics(broker.bootstrap, predictions=4, priors=1, rejected=1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    arrival = np.argsort(events.times + np.random.default_rng(31).uniform(0, 10.0, 1500))
    for place in arrival.tolist():
        value = msgspec.json.encode({"scores": events.scores[place].tolist()})
        stamp = int(events.micros[place]) // 1000
        producer.send("predictions", value, events.keys[place].encode(), timestamp_ms=stamp)
    producer.send("predictions", b"{", b"shop-7", timestamp_ms=1_700_000_000_000)
    producer.flush()
    producer.close()

    where = {"kafka.bootstrap.servers": broker.bootstrap}
    source = spark.readStream.format("kafka").options(**where, startingOffsets="earliest")
    df = source.options(subscribe="predictions", maxOffsetsPerTrigger=800).load()
    columns: Any = {"key": "key", "scores": "value", "time": "timestamp"}
    updates = prior_updates(df, PROFILE, WINDOW, watermark=10.0, buckets=3, **columns)
    bad = bad_rows(df, PROFILE, **columns)
    for name, rows in {"priors": to_wire(updates), "rejected": bad.select("key", "value")}.items():
        writing = rows.writeStream.format("kafka").options(**where, topic=name)
        writing = writing.option("checkpointLocation", str(tmp_path / name))
        writing.trigger(availableNow=True).start().awaitTermination()

    found: dict[str, list[Any]] = {"priors": [], "rejected": []}
    consumer = KafkaConsumer(
        *found,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=3000,
    )
    for message in consumer:
        found[message.topic].append(message)
    consumer.close()
    ours = [msgspec.json.decode(message.value) for message in found["priors"]]
    assert [message.key.decode() for message in found["priors"]] == [each["key"] for each in ours]
    wanted = expected(events, WINDOW, float(events.times.max()) - 10.0)
    assert len(wanted) > 50
    assert not differences(in_order(ours), wanted)
    assert [(each.key, each.value) for each in found["rejected"]] == [(b"shop-7", b"{")]


SUBMIT = [
    str(Path(sys.executable).with_name("spark-submit")),
    *("--master", "local[2]"),
    *("--packages", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"),
]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable], id="python"),
        pytest.param(SUBMIT, id="spark-submit", marks=pytest.mark.slow),
    ],
)
def test_the_example_runs(command: list[str], tmp_path: Path) -> None:
    """In a process of its own: what it sets, a session of the tests would not take."""
    example = ROOT / "examples/11_spark_kafka.py"
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    done = subprocess.run(
        [*command, str(example)],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": java},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *windows, north, south = done.stdout.splitlines()
    assert len(windows) == 6, done.stdout
    assert windows[-1].startswith("south 1767600120, 500 events: ")
    assert 0.05 < float(north.split()[1]) < 0.15
    assert 0.25 < float(south.split()[1]) < 0.4
