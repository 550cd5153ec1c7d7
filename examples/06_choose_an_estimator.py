"""How to choose an estimator, and why you need not: the profile has tried them on your data.

Run `python examples/06_choose_an_estimator.py`.
"""

import numpy as np
from stream_leip_connectors.files import example

from stream_leip import BBSE, EM, LEIP, RLLS, Auto, ClassifyAndCount, Estimator, fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)

print("error on replayed shifts of the validation rows, which `Auto` goes by:")
for place, size in enumerate(profile.replay.sizes):
    errors = {name: by[place] for name, by in profile.replay.errors.items()}
    shown = ", ".join(f"{name} {error:.4f}" for name, error in errors.items())
    print(f"  {size:5} rows: {shown} → {profile.replay.best(size)}")

# The same on test rows that the profile never saw: 40 mixes, total variation from the truth.
rng = np.random.default_rng(0)
estimators: dict[str, Estimator] = {
    "Auto": Auto(), "LEIP": LEIP(), "EM": EM(), "RLLS": RLLS(), "BBSE": BBSE(),
    "counted": ClassifyAndCount(),
}  # fmt: skip
print("\nmean error on 40 new shifts:")
for size in (200, 1000, 5000):
    total = dict.fromkeys(estimators, 0.0)
    for seed in range(40):
        mix = rng.dirichlet(np.ones(10))
        rows = profile.rows(data.draw(mix.tolist(), size, seed=seed))
        for name, estimator in estimators.items():
            prior = estimator.estimate(rows, profile).prior
            total[name] += 0.5 * float(np.abs(prior - mix).sum()) / 40
    print(f"  {size:5} rows: " + ", ".join(f"{name} {error:.4f}" for name, error in total.items()))
