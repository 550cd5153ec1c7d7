"""Adapt predictions inside your own Kafka consumer, with priors that another process keeps.

Run `python examples/08_adapt_in_a_consumer.py`, with the extras kafka and local-broker.
"""

import threading
import time

import msgspec
import numpy as np
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from stream_leip_connectors.files import example
from stream_leip_connectors.kafka import KafkaMonitor, KafkaSettings, LocalBroker
from stream_leip_connectors.kafka.live import LivePrior

from stream_leip import fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)

# A shop where nearly all is threes and fives. Labels go along only to count errors here.
rng = np.random.default_rng(0)
mix = np.array([0.01, 0.01, 0.01, 0.4, 0.01, 0.5, 0.01, 0.01, 0.02, 0.02])
weight = (mix / np.bincount(data.test_labels))[data.test_labels]
places = rng.choice(len(weight), 6000, p=weight / weight.sum())


def write(bootstrap: str, some: np.ndarray) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5)
    for place in some.tolist():
        event = {
            "scores": data.test_logits[place].tolist(),
            "label": int(data.test_labels[place]),
        }
        producer.send("predictions", key=b"corner shop", value=msgspec.json.encode(event))
    producer.flush()
    producer.close()


with LocalBroker() as broker:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({"predictions": {"num_partitions": 1}}, wait_for_metadata=True)
    admin.close()
    # `stream-leip kafka run`, somewhere.
    monitor = KafkaMonitor(
        profile, KafkaSettings(bootstrap=broker.bootstrap, create_topics=True, commit_every=0.2)
    )
    thread = threading.Thread(target=monitor.run)
    thread.start()

    # Your consumer: two lines more than before.
    with LivePrior(profile, broker.bootstrap, "priors") as live:
        consumer = KafkaConsumer(
            "predictions",
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            consumer_timeout_ms=2000,
        )
        for part, some in enumerate(np.split(places, 3)):
            write(broker.bootstrap, some)
            plain = adapted = 0
            for message in consumer:
                event = msgspec.json.decode(message.value)
                scores = np.array([event["scores"]])
                plain += int(profile.rows(scores).argmax() != event["label"])
                adapted += int(live.adapt(scores, key="corner shop").argmax() != event["label"])
            age = live.age("corner shop")
            known = "no prior yet" if age is None else f"the prior is {age:.1f} s old"
            print(f"part {part + 1}: {plain:3} errors plain, {adapted:3} adapted; {known}")
            while monitor.total.events < 2000 * (part + 1):
                time.sleep(0.1)
        consumer.close()
        print(f"the shop's mix: {np.array2string(live.prior('corner shop'), precision=2)}")
    monitor.stop()
    thread.join()
