"""One monitor for each shop, fed from one stream of mixed events; and a pause in between.

Run `python examples/03_keyed_streams.py`.
"""

import numpy as np
from stream_leip_connectors.files import example

from stream_leip import KeyedMonitor, Tumbling, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)

shops = {
    "north": [0.1] * 10,
    "south": [0.02, 0.02, 0.03, 0.03, 0.05, 0.05, 0.1, 0.1, 0.2, 0.4],
    "west": [0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.03, 0.03, 0.02, 0.02],
}
# An event of each shop in turn, one a second.
logits = np.stack([data.draw(mix, 2000) for mix in shops.values()], axis=1).reshape(-1, 10)
keys = list(shops) * 2000
times = 1767600000.0 + np.arange(len(keys))

keyed = KeyedMonitor(profile, Tumbling(seconds=1800))
half = len(keys) // 2
updates = keyed.update_many(keys[:half], logits[:half], times[:half])

# The process may end here: all of its state is in these bytes.
state = keyed.snapshot()
keyed = KeyedMonitor.restore(state, profile)
updates += keyed.update_many(keys[half:], logits[half:], times[half:])

print(f"{len(keyed)} shops, {len(updates)} updates, a state of {len(state) / 1e3:.0f} kB\n")
for update in updates:
    assert update.prior is not None
    error = 0.5 * np.abs(update.prior - shops[update.key or ""]).sum()
    top = np.argsort(-update.prior)[:3]
    mix = ", ".join(f"{profile.classes[j]} {update.prior[j]:.2f}" for j in top)
    print(f"{update.key:6} window {update.sequence}: {update.n} rows, {mix}, … off by {error:.3f}")
