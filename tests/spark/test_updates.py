"""Updates by Spark are those of a KeyedMonitor, whatever the partitions and the order."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_leip import Adaptive, Fading, InputError, Sliding, Tumbling
from stream_leip.adapt import adapt as under
from tests.spark.streams import SCHEMA, Events, differences, draw, expected, found, table, write
from tests.streams import PROFILE, batch, mistyped

pytestmark = [
    pytest.mark.needs_spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # py4j's
]

WINDOWS: list[Any] = [
    Tumbling(seconds=10.0),
    Sliding(seconds=20.0, every=5.0),
    Fading(half_life=timedelta(seconds=20), every=timedelta(seconds=10)),
    Tumbling(count=40),
    Adaptive(every=50),
]


# So many that what waits, and a monitor's snapshot, are of hundreds of kilobytes.
MANY = 12_000


def in_batch(spark: Any, events: Events, window: Any, partitions: int, **options: Any) -> Any:
    from stream_leip_connectors.spark import prior_updates

    df = spark.createDataFrame(table(events)).repartition(partitions)
    return found(prior_updates(df, PROFILE, window, key="key", buckets=3, **options))


def closed(events: Events, window: Any) -> list[dict[str, Any]]:
    """What a batch gives: each key's windows to the last that has events."""
    every = {"Tumbling": 10.0, "Sliding": 5.0, "Fading": 10.0}.get(type(window).__name__)
    if not window.needs_time or every is None:
        return expected(events, window, None)
    updates = []
    for key in sorted(set(events.keys)):
        # A bucket's streams end together.
        mine = events.some(events.keys == key)
        tail = 0.0 if isinstance(window, Fading) else 60.0
        last = (events.times.max() // every + 1) * every
        updates += expected(mine, window, last + tail)
    return updates


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_batch_gives_the_updates_of_a_keyed_monitor(spark: Any, window: Any) -> None:
    events = draw(0, 1500)
    wanted = closed(events, window)
    assert len(wanted) > 10
    for partitions in (1, 4) if window in WINDOWS[:2] else (3,):
        mixed = events.some(np.random.default_rng(partitions).permutation(len(events.keys)))
        assert not differences(in_batch(spark, mixed, window, partitions), wanted)


def test_a_window_is_the_batch_estimator_on_its_rows(spark: Any) -> None:
    events = draw(4, 900, keys=2)
    updates = in_batch(spark, events, Tumbling(seconds=10.0), 2)
    assert len(updates) == 12
    for update in updates:
        mine = (events.keys == update["key"]) & (events.times >= update["start"])
        rows = PROFILE.rows(events.scores[mine & (events.times < update["end"])])
        assert update["n"] == len(rows)
        for name, prior in batch(rows).items():
            np.testing.assert_array_equal(update[name], prior)


def stream(
    spark: Any, folder: Path, window: Any, name: str, *, keyed: bool = True, **options: Any
) -> Any:
    """All files of a folder, each a micro-batch."""
    from stream_leip_connectors.spark import prior_updates

    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    key = "key" if keyed else None
    updates = prior_updates(df, PROFILE, window, key=key, buckets=3, **options)
    writing = updates.writeStream.format("memory").queryName(name).outputMode("append")
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()
    return found(spark.table(name))


@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
def test_a_stream_gives_the_updates_of_a_keyed_monitor(
    spark: Any, tmp_path: Path, window: Any
) -> None:
    events = draw(2, 1500)
    wanted = expected(events, window, float(events.micros.max() // 1000) / 1e3 - 10.0)
    assert len(wanted) > 20
    # Out of order by up to ten seconds, which is what the watermark waits.
    rng = np.random.default_rng(3)
    arrival = np.argsort(events.times + rng.uniform(0, 10.0, len(events.keys)))
    write(events.some(arrival), tmp_path / "in", 3)
    ours = stream(spark, tmp_path / "in", window, f"s{id(window)}", watermark=10.0)
    assert not differences(ours, wanted)


def test_all_events_are_one_stream_without_a_key(spark: Any, tmp_path: Path) -> None:
    from stream_leip_connectors.spark import prior_updates

    events = draw(11, MANY)
    one = events._replace(keys=np.repeat("one", MANY))
    mixed = events.some(np.random.default_rng(5).permutation(MANY))
    window = Tumbling(seconds=10.0)
    df = spark.createDataFrame(table(mixed)).repartition(3)
    whole = found(prior_updates(df, PROFILE, window))
    assert {update["key"] for update in whole} == {None}
    until = (events.times.max() // 10 + 1) * 10
    wanted = [update | {"key": None} for update in expected(one, window, until)]
    assert not differences(whole, wanted)
    arrival = np.argsort(events.times + np.random.default_rng(6).uniform(0, 5.0, MANY))
    write(events.some(arrival), tmp_path / "in", 2)
    adaptive = Adaptive(every=1000)
    ours = stream(spark, tmp_path / "in", adaptive, "whole", keyed=False, watermark=5.0)
    # All but the last five seconds, which still wait.
    passed = events.times < float(events.micros.max() // 1000) / 1e3 - 5.0
    wanted = [update | {"key": None} for update in expected(one.some(passed), adaptive, None)]
    assert len(wanted) > 10
    assert not differences(ours, wanted)


def test_late_rows_are_counted_and_bad_rows_are_told(spark: Any, tmp_path: Path) -> None:
    from stream_leip_connectors.spark import bad_rows

    events = draw(12, 900, keys=1)
    events.scores[::100] = np.nan
    late = np.arange(900) < 50  # of the first pane, which has ended when they come
    write(events.some(~late & (events.times < events.times[700])), tmp_path / "in", 2)
    write(events.some(late), tmp_path / "in", 1, first=2)
    write(events.some(events.times >= events.times[700]), tmp_path / "in", 1, first=3)
    updates = stream(spark, tmp_path / "in", Tumbling(seconds=10.0), "late")
    assert updates[0]["late"] == 0
    assert updates[-1]["late"] == 49  # the fiftieth is bad
    assert sum(update["n"] for update in updates) < 842
    df = spark.read.schema(SCHEMA).parquet(str(tmp_path / "in"))
    bad = bad_rows(df, PROFILE, key="key").collect()
    assert len(bad) == 9
    assert {row["reason"].split(" is nan")[0] for row in bad} == {"the score of class 'c0'"}
    assert all(row["key"] == "shop-0" for row in bad)


ODD = [
    ('{"scores": [0.2, 0.3, 0.5]}', "a", 1e9, None),
    ('{"scores": {"c0": 0.2, "c1": 0.3, "c2": 0.5}}', "a", 1e9, None),
    ('{"scores": [0.2, 0.3]}', "a", 1e9, "not an event: Expected `array` of length 3"),
    ("{", "a", 1e9, "not JSON"),
    (None, "a", 1e9, "not JSON"),
    ('{"scores": [0.2, 0.3, 0.5]}', None, 1e9, "no key"),
    ('{"scores": [0.2, 0.3, 0.5]}', "a", None, "no time"),
    ('{"scores": [0.2, 0.3, 0.5]}', "a", 1e13, "no time"),
    ('{"scores": [0.2, 0.3, 1e400]}', "a", 1e9, "not an event: Number out of range"),
]


def test_bad_rows_keep_their_columns_and_never_fail_a_query(spark: Any) -> None:
    from stream_leip_connectors.spark import adapt, bad_rows, prior_updates

    schema = "number int, value string, key string, time double"
    given = [(place, *line[:3]) for place, line in enumerate(ODD)]
    df = spark.createDataFrame(given, schema).repartition(2)
    names: Any = {"key": "key", "scores": "value", "time": "time"}
    reasons = {row["number"]: row["reason"] for row in bad_rows(df, PROFILE, **names).collect()}
    for place, (*_, reason) in enumerate(ODD):
        assert (reason is None) == (place not in reasons)
        assert reason is None or reasons[place].startswith(reason), reasons[place]
    (update,) = found(prior_updates(df, PROFILE, Tumbling(seconds=10.0), **names))
    assert update["n"] == 2
    told = adapt(df, [0.2, 0.3, 0.5], PROFILE, scores="value").orderBy("number").collect()
    assert [row["posterior"] is None for row in told[:5]] == [False, False, True, True, True]
    assert [row["reason"] is None for row in told[:5]] == [True, True, False, False, False]


def test_posteriors_follow_the_newest_update_of_each_key(spark: Any) -> None:
    from stream_leip_connectors.spark import adapt, prior_updates

    events = draw(13, 600, keys=2)
    df = spark.createDataFrame(table(events))
    updates = prior_updates(df, PROFILE, Tumbling(seconds=20.0), key="key").localCheckpoint()
    newest = {update["key"]: update for update in found(updates)}
    strange = events.some(slice(0, 40))._replace(keys=np.repeat("new", 40))
    both = df.union(spark.createDataFrame(table(strange)))
    rows = adapt(both, updates, PROFILE, key="key").collect()
    assert len(rows) == 640
    for row in rows[::20]:
        mix = newest.get(row["key"], {"adapting_prior": PROFILE.soft_prior})["adapting_prior"]
        by_hand = under(PROFILE.rows([row["scores"]]), np.array(mix), PROFILE.soft_prior)
        np.testing.assert_array_equal(np.array(row["posterior"], np.float32), by_hand[0])


def test_what_cannot_be_is_said_before_a_query_starts(spark: Any) -> None:
    from stream_leip_connectors.spark import adapt, prior_updates

    df = spark.createDataFrame(table(draw(14, 10)))
    for message, given in {
        "no column 'shop'; found key, scores, time": {"key": "shop"},
        "no common count": {"window": Tumbling(count=10)},
        "watermark: 5 s, but the window's lateness is 3 s": {
            "window": Tumbling(seconds=10.0, lateness=3.0),
            "watermark": 5.0,
        },
        "scores: a column of type string|scores: a column of type timestamp": {"scores": "time"},
        "time: a column of type string": {"time": "key"},
        "buckets: 0": {"buckets": 0},
        "format: 'avro'": {"format": "avro"},
        "level": {"level": 2.0},
    }.items():
        with pytest.raises(InputError, match=message):
            prior_updates(df, PROFILE, **mistyped(given))
    with pytest.raises(InputError, match=r"has the sum 0\.9"):
        adapt(df, [0.2, 0.2, 0.5], PROFILE)
