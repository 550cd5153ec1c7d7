"""A drift detector and a running statistic of River's kind, fed with scores and no labels.

Needs the extra `river`. Run `python examples/10_river_detector.py`.
"""

from stream_leip_connectors.files import example
from stream_leip_connectors.river import LabelShiftDetector, PriorTracker

from stream_leip import fit_profile

data = example()
profile = fit_profile(data.val_logits, data.val_labels)
detector = LabelShiftDetector(profile, alarm=0.05)  # a false alarm on 5 % of streams, ever
tracker = PriorTracker(profile)

home, nines, zeros = [0.1] * 10, [0.06] * 9 + [0.46], [0.46] + [0.06] * 9
stream = [mix for mix in (home, nines, zeros) for _ in range(3)]
print("3000 events at home, 3000 with many nines, 3000 with many zeros")

for part, mix in enumerate(stream):
    for i, logits in enumerate(data.draw(mix, 1000, seed=part), 1000 * part):
        scores = dict(zip(profile.classes, logits.tolist(), strict=True))
        detector.update(scores)
        tracker.update(scores)
        if detector.drift_detected:
            moved = ", ".join(f"{name} {way}" for name, way in detector.moved.items())
            print(f"event {i}: drift since event {detector.changed_at}: {moved}")
    print(f"event {i}: {tracker}")
