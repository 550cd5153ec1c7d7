"""Work in pieces: nothing twice, nothing left out, in the order of each partition."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from stream_leip_connectors.kafka.backlog import Backlog
from stream_leip_connectors.kafka.records import Records


def some(partition: int, first: int, n: int) -> Records:
    each: list[Any] = [b"x"] * n
    return Records("t", partition, list(range(first, first + n)), [0] * n, each, each)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3000)), max_size=6),
    st.sampled_from([1e-6, 1e-4, 1e-3, 1e-2]),
    st.sampled_from([0.0, 0.5]),
)
def test_all_is_taken_once_and_in_order(
    polled: list[tuple[int, int]], pace: float, seconds: float
) -> None:
    now = [0.0]
    backlog = Backlog(lambda: now[0])
    ends: dict[int, int] = {}
    taken: dict[int, list[int]] = {}
    sizes: list[int] = []

    def take(partition: int, records: Records) -> None:
        now[0] += pace * len(records)
        sizes.append(len(records))
        taken.setdefault(partition, []).extend(records.offsets)

    for partition, n in polled:
        first = ends.get(partition, 0)
        backlog.put({partition: some(partition, first, n)})
        ends[partition] = first + n
    while backlog:
        began = now[0]
        backlog.work(take, seconds)
        # The first piece of all may be long: nobody knows the pace yet.
        if len(sizes) > 1:
            assert now[0] - began <= seconds + max(0.5, 200 * pace) + pace * sizes[0] + 1e-9
    assert taken == {partition: list(range(end)) for partition, end in ends.items()}


def test_partitions_that_go() -> None:
    backlog = Backlog()
    backlog.put({0: some(0, 0, 5), 1: some(1, 0, 5)})
    backlog.drop({0})
    found: list[int] = []
    backlog.work(lambda partition, _: found.append(partition), 10.0)
    assert found == [1]
    backlog.put({0: some(0, 0, 5)})
    backlog.clear()
    assert not backlog
