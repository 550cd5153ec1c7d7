"""Replay a drift of your own, and see which monitor would have followed it.

Run it: python examples/05_replay_a_drift.py
"""

from stream_leip_connectors.files import example

from stream_leip import EM, Fading, Monitor, Sliding, Tumbling, fit_profile
from stream_leip.replay import Appearing, Pool, Rising, Seasonal, replay

data = example()  # logits of a small MNIST network
profile = fit_profile(data.val_logits, data.val_labels)
pool = Pool(data.test_logits, data.test_labels)

# Nines are away at first and come back at once, threes grow slowly, then days pass.
schedule = Appearing(9, to=0.25).then(Rising(3, to=0.4)).then(Seasonal(day=0.25).noisy(0.1))

monitors = {
    "tumbling": Monitor(profile, Tumbling(count=1000), EM()),
    "sliding": Monitor(profile, Sliding(count=1000, every=100), EM()),
    "fading": Monitor(profile, Fading(half_life=500, every=100), EM()),
}
result = replay(monitors, pool, schedule, n=30_000)

print(f"true changes at {result.changes}")
print(result)
best = min(result.tracks.values(), key=lambda track: track.errors.standing)
print(f"\n{best.name} stood nearest to the truth; its last words:")
print(best.points[-1].update)
