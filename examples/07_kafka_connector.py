"""The Kafka connector end to end, on a real broker that needs nothing installed but the extras.

Run `python examples/07_kafka_connector.py`, with the extras kafka and local-broker.
"""

import threading
import time

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from stream_leip_connectors.files import example
from stream_leip_connectors.kafka import KafkaMonitor, KafkaSettings, LocalBroker

from stream_leip import Tumbling, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)
even, threes = [0.1] * 10, [0.05, 0.05, 0.05, 0.55] + [0.05] * 6

with LocalBroker() as broker:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({"predictions": {"num_partitions": 2}}, wait_for_metadata=True)
    admin.close()

    # Somebody's service writes its predictions, a shop's as the key. Nobody knows any labels.
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=5)
    for shop, mixes in {"north": [even, even], "south": [even, threes]}.items():
        for row in np.concatenate([data.draw(mix, 1000, seed=1) for mix in mixes]):
            value = msgspec.json.encode({"scores": row.tolist()})
            producer.send("predictions", key=shop.encode(), value=value)
    producer.flush()
    producer.close()

    # The connector: as many processes as you like would share the partitions.
    settings = KafkaSettings(bootstrap=broker.bootstrap, create_topics=True)
    monitor = KafkaMonitor(profile, settings, Tumbling(count=1000))
    thread = threading.Thread(target=monitor.run)
    thread.start()
    while monitor.total.updates < 4:
        time.sleep(0.1)
    monitor.stop()  # finishes its batch, commits, and leaves the group
    thread.join()
    print(monitor.total)

    # Any consumer reads what it wrote; as committed, each update is there once.
    consumer = KafkaConsumer(
        "priors",
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=3000,
    )
    for message in consumer:
        update = msgspec.json.decode(message.value)
        shares = " ".join(f"{share:.2f}" for share in update["prior"])
        print(f"{update['key']}, events to {update['last']:4}: {shares}")
    consumer.close()
