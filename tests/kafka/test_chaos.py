"""Workers are killed, come and go, and the broker restarts: nothing is lost, twice or wrong."""

from dataclasses import replace

import pytest
from stream_leip_connectors.kafka import LocalBroker

from benchmarks.chaos import Plan, chaos

pytestmark = [pytest.mark.needs_kafka, pytest.mark.slow]


def test_ten_kills_of_a_whole_topic(broker: LocalBroker) -> None:
    plan = Plan(
        kills=10, rebalances=1, restarts=1, rate=1000, scope="topic",
        window="tumbling 1s lateness 1s",
    )  # fmt: skip
    outcome = chaos(broker, plan)
    assert outcome.kills == 10
    assert outcome.updates > 50
    assert (outcome.missing, outcome.twice, outcome.wrong) == (0, 0, 0), str(outcome)
    assert set(outcome.exit_codes) == {0}
    assert max(outcome.stopped) < 10.0


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_ten_kills(broker: LocalBroker, client: str) -> None:
    outcome = chaos(broker, Plan(kills=10, rebalances=1, restarts=1, rate=1000, client=client))
    assert outcome.kills == 10
    assert outcome.updates > 100
    assert (outcome.missing, outcome.twice, outcome.wrong) == (0, 0, 0), str(outcome)
    assert set(outcome.exit_codes) == {0}
    assert max(outcome.stopped) < 10.0


@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_without_transactions_updates_come_again_as_they_were(
    broker: LocalBroker, client: str
) -> None:
    # With commits all the time, kills hit some.
    plan = Plan(kills=6, rebalances=1, restarts=0, rate=1000, commit=0.01, client=client)
    outcome = chaos(broker, replace(plan, delivery="at-least-once"))
    assert outcome.kills == 6
    assert outcome.updates > 100
    assert (outcome.missing, outcome.wrong) == (0, 0), str(outcome)
    assert set(outcome.exit_codes) == {0}
