"""Watch a stream, event by event: the mix after every 1000 events, as a bar for each class.

Run `python examples/02_watch_a_stream.py`.
"""

import numpy as np
from stream_leip_connectors.files import example

from stream_leip import Monitor, Sliding, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)
monitor = Monitor(profile, Sliding(count=2000, every=1000))

# Four thousand events at home; then nines take over, a little more with each thousand.
home = np.full(10, 0.1)
nines = np.array([0.05] * 9 + [0.55])
steps = np.repeat([0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0], 1000)
stream = np.concatenate(
    [
        data.draw(((1 - step) * home + step * nines).tolist(), 1000, seed=seed)
        for seed, step in enumerate(steps[::1000])
    ]
)
true = 0.1 + 0.45 * steps

BARS = " ▁▂▃▄▅▆▇█"
print("events   0123456789   share of 9 (true)   estimator")
for number, logits in enumerate(stream):
    for update in monitor.update(logits):
        assert update.first is not None
        assert update.prior is not None
        bars = "".join(BARS[min(8, round(share * 16))] for share in update.prior)
        nine = f"{update.prior[9]:.3f} ({true[update.first : number + 1].mean():.3f})"
        print(f"{number + 1:6}   {bars}   {nine}       {update.estimator}")

monitor.update_many(stream[-300:])
print("\nnow, 300 events later:", monitor.estimate())
