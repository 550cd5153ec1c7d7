"""Estimators: the rows in scope to the prior behind them. Pure, with no memory."""

from stream_leip.estimators.auto import Auto
from stream_leip.estimators.confusion import BBSE, RLLS
from stream_leip.estimators.counting import ClassifyAndCount, MeanPosterior
from stream_leip.estimators.em import EM
from stream_leip.estimators.estimate import Estimate, Estimator
from stream_leip.estimators.leip import LEIP
from stream_leip.estimators.threshold import Fixed, Share

__all__ = [
    "BBSE",
    "EM",
    "LEIP",
    "RLLS",
    "Auto",
    "ClassifyAndCount",
    "Estimate",
    "Estimator",
    "Fixed",
    "MeanPosterior",
    "Share",
]
