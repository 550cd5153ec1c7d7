"""Estimate the class mix of a batch of unlabelled predictions.

Run `python examples/01_estimate_a_batch.py`.
"""

from stream_leip_connectors.files import example

from stream_leip import EM, LEIP, ClassifyAndCount, Estimator, fit_profile

data = example()  # logits of a small MNIST network: labelled validation rows, and test rows
profile = fit_profile(data.val_logits, data.val_labels)
print(profile, end="\n\n")

# Yesterday every digit was as frequent as any other. Today is different, and nobody has labels.
today = [0.02, 0.02, 0.03, 0.03, 0.05, 0.05, 0.1, 0.1, 0.2, 0.4]
rows = profile.rows(data.draw(today, n=5000))

estimators: dict[str, Estimator] = {"LEIP": LEIP(), "EM": EM(), "counted": ClassifyAndCount()}
priors = {name: each.estimate(rows, profile).prior for name, each in estimators.items()}

print("class   true  " + "  ".join(f"{name:>7}" for name in priors))
for j, name in enumerate(profile.classes):
    shares = "  ".join(f"{prior[j]:7.3f}" for prior in priors.values())
    print(f"{name:5}  {today[j]:5.3f}  {shares}")
