"""Workers are killed, come and go, and the broker restarts: nothing is lost, twice or wrong."""

import pytest
from stream_leip_connectors.kafka import LocalBroker

from benchmarks.chaos import Plan, chaos

pytestmark = [pytest.mark.needs_kafka, pytest.mark.slow]


def test_ten_kills(broker: LocalBroker) -> None:
    outcome = chaos(broker, Plan(kills=10, rebalances=1, restarts=1, rate=1000))
    assert outcome.kills == 10
    assert outcome.updates > 100
    assert (outcome.missing, outcome.twice, outcome.wrong) == (0, 0, 0), str(outcome)
    assert set(outcome.exit_codes) == {0}
    assert max(outcome.stopped) < 10.0
