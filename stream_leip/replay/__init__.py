"""Simulated drift: schedules of the true mix, labelled pools, and monitors replayed on them."""

from stream_leip.replay.mixes import Dirichlet, Mix
from stream_leip.replay.pool import Pool
from stream_leip.replay.result import (
    Alarms,
    Errors,
    Point,
    Predictions,
    ReplayResult,
    Track,
    to_record,
)
from stream_leip.replay.run import replay
from stream_leip.replay.schedule import Chain, Noisy, Plan, Schedule
from stream_leip.replay.schedules import (
    Appearing,
    Bernoulli,
    Constant,
    Linear,
    Rising,
    Sinusoidal,
    Square,
    Sudden,
)
from stream_leip.replay.stream import Events, Stream, Traffic
from stream_leip.replay.violations import LogitNoise, Temperature, Violation
from stream_leip.replay.wandering import FromTable, Jumps, Seasonal, Walk

__all__ = [
    "Alarms",
    "Appearing",
    "Bernoulli",
    "Chain",
    "Constant",
    "Dirichlet",
    "Errors",
    "Events",
    "FromTable",
    "Jumps",
    "Linear",
    "LogitNoise",
    "Mix",
    "Noisy",
    "Plan",
    "Point",
    "Pool",
    "Predictions",
    "ReplayResult",
    "Rising",
    "Schedule",
    "Seasonal",
    "Sinusoidal",
    "Square",
    "Stream",
    "Sudden",
    "Temperature",
    "Track",
    "Traffic",
    "Violation",
    "Walk",
    "replay",
    "to_record",
]
