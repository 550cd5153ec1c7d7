"""A River pipeline whose predictions follow the class mix, though labels come 1000 events late.

Needs the extra `river`. Run `python examples/09_river_pipeline.py`.
"""

import random
from collections import deque
from collections.abc import Iterator
from typing import Any

from river import metrics, naive_bayes, preprocessing
from stream_leip_connectors.river import LabelShiftClassifier

LATE = 1000
CLASSES = ("low", "middle", "high")


def stream() -> Iterator[tuple[dict[Any, float], str]]:
    """Three classes that overlap; after 4000 events "high" takes over."""
    rng = random.Random(0)
    for i in range(8000):
        y = rng.choices(CLASSES, (1, 1, 1) if i < 4000 else (1, 1, 8))[0]
        yield {"heat": rng.gauss(30.0 * CLASSES.index(y), 25.0), "hum": rng.gauss(0.0, 1.0)}, y


# The wrapper goes around the whole pipeline, so that observe_one may be given raw features.
model = LabelShiftClassifier(preprocessing.StandardScaler() | naive_bayes.GaussianNB())
bare, adapted = metrics.Accuracy(), metrics.Accuracy()
waiting: deque[tuple[dict[Any, float], str]] = deque()

print("events   bare     adapted  share of high   alarm")
for i, (x, y) in enumerate(stream(), 1):
    before = model.model.predict_one(x)
    if before is not None:
        bare.update(y, before)
        adapted.update(y, model.predict_one(x))
    model.observe_one(x)  # no label needed
    waiting.append((x, y))
    if len(waiting) > LATE:
        model.learn_one(*waiting.popleft())  # the label is here at last
    if i % 1000 == 0 and model.ready:
        share = f"{model.prior['high']:.2f}"
        print(f"{i:6}   {bare.get():.3f}    {adapted.get():.3f}    {share:13}   {model.alarm}")
        bare, adapted = metrics.Accuracy(), metrics.Accuracy()

print("\n" + str(model.last_update))
