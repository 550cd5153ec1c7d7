"""Adapt a classifier's predictions to the class mix of the moment, and count what that gains.

Run `python examples/04_adapt_predictions.py`.
"""

import numpy as np
from stream_leip_connectors.files import example

from stream_leip import Monitor, Tumbling, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)
monitor = Monitor(profile, Tumbling(count=1000))

# A stream in which two digits make up most of the mail. Labels serve only to count errors.
rng = np.random.default_rng(0)
mix = np.array([0.01, 0.01, 0.01, 0.4, 0.01, 0.5, 0.01, 0.01, 0.02, 0.02])
weight = (mix / np.bincount(data.test_labels))[data.test_labels]
places = rng.choice(len(weight), 10_000, p=weight / weight.sum())
logits, labels = data.test_logits[places], data.test_labels[places]

plain = adapted = 0
for begin in range(0, len(logits), 100):
    chunk, truth = logits[begin : begin + 100], labels[begin : begin + 100]
    # Predict first, with the mix known so far; only then let the monitor see the events.
    plain += int((profile.rows(chunk).argmax(axis=1) != truth).sum())
    adapted += int((monitor.adapt(chunk).argmax(axis=1) != truth).sum())
    if monitor.update_many(chunk):
        print(f"after {begin + 100:5} events: {plain:4} errors plain, {adapted:4} adapted")

print(f"\nadapting took away {plain - adapted} of {plain} errors, with no label seen")
