"""Predictions from a Kafka topic by Spark, and the updates of the mix to another topic.

Run `python examples/11_spark_kafka.py`, with the extras spark, kafka and local-broker and Java 17
or 21; or `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0
examples/11_spark_kafka.py`, for any master. In a job of yours the broker is there already.
"""

import tempfile

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from stream_leip_connectors.files import example
from stream_leip_connectors.kafka import LocalBroker
from stream_leip_connectors.spark import (
    KAFKA_PACKAGE,
    SETTINGS,
    adapt,
    from_wire,
    prior_updates,
    to_wire,
)

from stream_leip import Tumbling, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)
even, threes = [0.1] * 10, [0.05, 0.05, 0.05, 0.55] + [0.05] * 6


def fill(bootstrap: str) -> None:
    """Somebody's service writes its predictions, a shop's as the key: four minutes of them."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    for shop, mixes in {"north": [even, even], "south": [even, threes]}.items():
        rows = np.concatenate([data.draw(mix, 1000, seed=1) for mix in mixes])
        for number, row in enumerate(rows):
            value = msgspec.json.encode({"scores": row.tolist()})
            time = 1_767_600_000_000 + number * 120  # in milliseconds
            producer.send("predictions", key=shop.encode(), value=value, timestamp_ms=time)
    producer.flush()
    producer.close()


settings = {
    **SETTINGS,
    "spark.jars.packages": KAFKA_PACKAGE,  # plain Python only: spark-submit has --packages
    "spark.sql.shuffle.partitions": "2",  # about one for each core
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
spark = SparkSession.builder.config(map=settings).getOrCreate()

with LocalBroker() as broker, tempfile.TemporaryDirectory() as folder:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics(
        {"predictions": {"num_partitions": 2}, "priors": {"num_partitions": 1}},
        wait_for_metadata=True,
    )
    admin.close()
    fill(broker.bootstrap)

    where = {"kafka.bootstrap.servers": broker.bootstrap, "startingOffsets": "earliest"}
    source = spark.readStream.format("kafka").options(**where, subscribe="predictions").load()
    updates = prior_updates(
        source, profile, Tumbling(seconds=60), key="key", scores="value", time="timestamp",
        watermark=10,
    )  # fmt: skip
    query = (
        to_wire(updates)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("topic", "priors")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)  # all that is there; leave it out, and the query goes on
        .start()
    )
    query.awaitTermination()

    # What any consumer of the topic reads.
    written = spark.read.format("kafka").options(**where, subscribe="priors").load()
    for record in written.orderBy("key", "offset").collect():
        update = msgspec.json.decode(record["value"])
        shares = " ".join(f"{share:.2f}" for share in update["prior"])
        print(f"{update['key']} {update['start']:.0f}, {update['n']} events: {shares}")

    # Predictions under the newest mix of their shop. On a stream, this goes into foreachBatch.
    predictions = spark.read.format("kafka").options(**where, subscribe="predictions").load()
    adapted = adapt(predictions, from_wire(written), profile, key="key", scores="value")
    three = F.element_at("posterior", 4)
    means = adapted.groupBy(F.col("key").cast("string")).agg(F.avg(three)).orderBy("key")
    for shop, share in means.collect():
        print(f"{shop}: {share:.2f} of all are threes")
spark.stop()
