"""Events and updates through the real broker."""

import json
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.events import FLOAT32, encode_update
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.records import Records

from stream_leip import Monitor, Tumbling
from tests.kafka.topics import read, write
from tests.test_events import PROFILE, plain
from tests.test_schemas import validator

pytestmark = pytest.mark.needs_kafka


@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "snappy", "zstd"])
def test_events_of_both_kinds(bootstrap: str, new_topic: Any, codec: str | None) -> None:
    rows = np.random.default_rng(0).dirichlet([0.4] * 3, 200).astype("<f4")
    topic = new_topic()
    messages: list[dict[str, Any]] = [
        {
            "key": b"k%d" % (i % 7),
            "value": plain({"scores": row.tolist()}) if i % 2 else row.tobytes(),
            "headers": [] if i % 2 else [("content-type", FLOAT32.encode())],
            "timestamp_ms": 1_700_000_000_000 + i,
        }
        for i, row in enumerate(rows)
    ]
    write(bootstrap, topic, messages, compression_type=codec)
    events = RecordDecoder(PROFILE).decode(Records.of(read(bootstrap, topic)))
    assert not events.bad
    np.testing.assert_allclose(events.batch.rows, PROFILE.rows(rows), rtol=1e-6)
    assert events.keys == [f"k{i % 7}" for i in range(200)]
    np.testing.assert_array_equal(events.batch.times, 1.7e9 + np.arange(200) / 1000)


def test_an_update_is_read_as_its_schema_says(bootstrap: str, new_topic: Any) -> None:
    rows = np.random.default_rng(0).dirichlet([0.4] * 3, 200)
    updates = Monitor(PROFILE, Tumbling(count=100)).update_many(rows)
    topic = new_topic()
    write(bootstrap, topic, [{"value": encode_update(update)} for update in updates])
    values = [json.loads(record.value) for record in read(bootstrap, topic)]
    assert values == [json.loads(json.dumps(update.to_dict())) for update in updates]
    for value in values:
        validator("update").validate(value)
