"""Streaming label-shift estimation: the class mix behind a classifier's predictions, unlabelled."""

from stream_leip.errors import (
    BadRowsError,
    InputError,
    ProfileError,
    SnapshotError,
    StreamLeipError,
)
from stream_leip.estimators import (
    BBSE,
    EM,
    LEIP,
    RLLS,
    Auto,
    ClassifyAndCount,
    Estimate,
    Estimator,
    Fixed,
    MeanPosterior,
    Share,
)
from stream_leip.fitting import fit_profile
from stream_leip.keyed import KeyedMonitor
from stream_leip.monitor import Monitor
from stream_leip.profile import SourceProfile
from stream_leip.update import Update
from stream_leip.windows import Adaptive, Fading, Sliding, Tumbling

__version__ = "0.1.0"

__all__ = [
    "BBSE",
    "EM",
    "LEIP",
    "RLLS",
    "Adaptive",
    "Auto",
    "BadRowsError",
    "ClassifyAndCount",
    "Estimate",
    "Estimator",
    "Fading",
    "Fixed",
    "InputError",
    "KeyedMonitor",
    "MeanPosterior",
    "Monitor",
    "ProfileError",
    "Share",
    "Sliding",
    "SnapshotError",
    "SourceProfile",
    "StreamLeipError",
    "Tumbling",
    "Update",
    "fit_profile",
]
