"""River: label-shift pieces for River pipelines (extra `river`)."""

from stream_leip_connectors import extras

extras.river()  # first: without River the error names the extra

from stream_leip_connectors.river.adapter import PosteriorAdapter  # noqa: E402
from stream_leip_connectors.river.classifier import LabelShiftClassifier  # noqa: E402
from stream_leip_connectors.river.detector import LabelShiftDetector  # noqa: E402
from stream_leip_connectors.river.tracker import PriorTracker  # noqa: E402

__all__ = ["LabelShiftClassifier", "LabelShiftDetector", "PosteriorAdapter", "PriorTracker"]
