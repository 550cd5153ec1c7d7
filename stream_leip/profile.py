"""What labelled validation data told us about the source."""

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from stream_leip import profile_json
from stream_leip import rows as gate
from stream_leip.arrays import Kind, Rows, Vector
from stream_leip.calibration import Calibrator
from stream_leip.errors import InputError, ProfileError
from stream_leip.evidence import truncate
from stream_leip.profile_json import Packed
from stream_leip.validation import Evidence, Validation
from stream_leip.whole_file import write_whole

SourcePrior = Literal["soft", "hard"]


@dataclass(frozen=True)
class ReplayErrors:
    """Mean total variation of each estimator on replayed shifts, by window size."""

    sizes: tuple[int, ...]
    errors: dict[str, tuple[float, ...]]

    def nearest(self, n: float) -> int:
        """The place of the size nearest to `n`, on a logarithmic scale."""
        return int(np.argmin(np.abs(np.log(np.array(self.sizes) / max(n, 1.0)))))

    def best(self, n: float) -> str:
        """The estimator of least error at the size nearest to `n`."""
        place = self.nearest(n)
        return min(self.errors, key=lambda name: self.errors[name][place])


@dataclass(frozen=True, eq=False)
class SourceProfile:
    """What labelled validation data told us about the source. Made by `fit_profile`.

    Parameters
    ----------
    classes
        Names, in the order of the score columns.
    kind
        Whether scores are "logits" or "probabilities".
    calibrator
        Turns scores into rows.
    validation
        Statistics of the validation rows.
    replay
        How well each estimator did on replayed shifts of them.
    seed
        Of the replay, and of the rows that are kept.
    known
        What intervals, alarm and check need of the validation rows; None in a profile that was put
        together by hand.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=400)
    >>> logits = np.eye(2)[labels] + rng.normal(size=(400, 2))
    >>> profile = fit_profile(logits, labels, classes=["cat", "dog"])
    >>> profile.hard_prior
    array([0.4475, 0.5525])
    >>> profile.rows([{"cat": 1.0, "dog": -1.0}]).round(2)
    array([[0.89, 0.11]], dtype=float32)
    """

    classes: tuple[str, ...]
    kind: Kind
    calibrator: Calibrator
    validation: Validation
    replay: ReplayErrors
    seed: int = 0
    known: Evidence | None = field(default=None, repr=False)

    @property
    def evidence(self) -> Evidence:
        """What intervals, alarm and check need of the validation rows.

        Raises
        ------
        InputError
            If the profile was put together by hand, without it.
        """
        if self.known is None:
            raise InputError(
                "profile: it holds no evidence of its validation rows, which intervals, alarm and "
                "check need; make it with fit_profile"
            )
        return self.known

    def evidence_of(self, top_k: int) -> Evidence:
        """The same for streams that keep the `top_k` largest entries of a row; 0 for all."""
        if not 0 < top_k < len(self.classes):
            return self.evidence
        if top_k not in self._truncated:
            self._truncated[top_k] = truncate(self.evidence, top_k, self.soft_prior, self.seed)
        return self._truncated[top_k]

    @cached_property
    def _truncated(self) -> dict[int, Evidence]:
        return {}

    @cached_property
    def hard_prior(self) -> Vector:
        """The share of each class among the validation labels."""
        return _shares(self.validation.hard.sum(axis=0))

    @cached_property
    def soft_prior(self) -> Vector:
        """The mean validation posterior of each class."""
        return _shares(self.validation.soft.sum(axis=1))

    def prior(self, which: SourcePrior) -> Vector:
        """The soft or the hard source prior."""
        return self.soft_prior if which == "soft" else self.hard_prior

    @cached_property
    def recalls(self) -> Vector:
        """The share of each class's validation rows that are labelled so."""
        found: Vector = np.diag(self.validation.hard) / self.validation.hard.sum(axis=0)
        return found

    @cached_property
    def precisions(self) -> Vector:
        """The share of the rows labelled so that are of the class; NaN where none is."""
        predicted = self.validation.hard.sum(axis=1)
        found = np.full(len(self.classes), np.nan)
        np.divide(np.diag(self.validation.hard), predicted, out=found, where=predicted > 0)
        return found

    @property
    def accuracy(self) -> float:
        """The share of validation rows labelled with their class."""
        return float(np.trace(self.validation.hard))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything the profile holds: equal for equal profiles."""
        return profile_json.checksum(self._content())

    def rows(self, scores: gate.ScoresLike) -> Rows:
        """Scores as calibrated rows.

        Parameters
        ----------
        scores
            A 2-D array, a list of lists, a list of dicts by class name, or a data frame (pandas,
            polars, pyarrow) with a column for each class; its other columns are left alone.

        Raises
        ------
        BadRowsError
            If a row is bad. It names the first one, how many there are, and the remedy.
        """
        rows = self.all_rows(scores)
        if len(rows) == 0:
            raise InputError("scores: there are none; pass at least one row")
        return rows

    def all_rows(self, scores: gate.ScoresLike) -> Rows:
        """As `rows`, for callers to whom no scores at all are fine."""
        return gate.require(scores, self.classes, self.kind, self.calibrator)

    def screen(self, scores: gate.ScoresLike) -> tuple[Rows, list[gate.BadRow]]:
        """The good rows of `scores`, and (index, reason) of each bad one."""
        return gate.screen(scores, self.classes, self.kind, self.calibrator)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as JSON: the same profile gives the same bytes.

        Raises
        ------
        ProfileError
            If the file cannot be written; one that was there stays as it was.
        """
        data = self.to_json()
        try:
            write_whole(Path(path), data)
        except OSError as error:
            raise ProfileError(
                f"{path}: cannot be written: {error.strerror or error}; choose another place"
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SourceProfile":
        """Read a profile that `save` wrote.

        Raises
        ------
        ProfileError
            If the file is missing, corrupt, of another kind, or of a newer version.
        """
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            raise ProfileError(
                f"{path}: no such file; make a profile with 'stream-leip fit' or fit_profile, or "
                "name another"
            ) from None
        except OSError as error:
            raise ProfileError(f"{path}: cannot be read: {error.strerror or error}") from error
        return cls.from_json(data, str(path))

    def to_json(self) -> bytes:
        """What `save` writes."""
        return profile_json.encode(self._content())

    @classmethod
    def from_json(cls, data: bytes, name: str = "profile") -> "SourceProfile":
        """The profile that `to_json` gave; errors call it by `name`."""
        content = profile_json.decode(data, name)
        try:
            return cls._from_content(content)
        except (ValueError, TypeError) as error:
            raise ProfileError(f"{name}: corrupt: {error}; fit the profile again") from error

    def _content(self) -> profile_json.Content:
        return profile_json.Content(
            self.classes,
            self.kind,
            self.seed,
            profile_json.CalibratorContent(
                self.calibrator.method,
                self.calibrator.bounded,
                self.calibrator.scale.tolist(),
                self.calibrator.bias.tolist(),
            ),
            profile_json.ReplayContent(self.replay.sizes, self.replay.errors),
            profile_json.ValidationContent(
                self.validation.n,
                self.validation.nll,
                self.validation.ece,
                Packed.of(self.validation.hard),
                Packed.of(self.validation.soft),
            ),
            None if self.known is None else profile_json.pack_evidence(self.known),
        )

    @classmethod
    def _from_content(cls, content: profile_json.Content) -> "SourceProfile":
        calibrator, validation = content.calibrator, content.validation
        m = len(content.classes)
        lengths = {len(calibrator.scale), len(calibrator.bias)}
        if lengths != {m} or {validation.hard.shape, validation.soft.shape} != {(m, m)}:
            raise ValueError(f"its arrays are not those of {m} classes")
        if any(len(by) != len(content.replay.sizes) for by in content.replay.errors.values()):
            raise ValueError("its replay has not an error for each size")
        return cls(
            content.classes,
            content.kind,
            Calibrator(
                calibrator.method,
                np.array(calibrator.scale),
                np.array(calibrator.bias),
                calibrator.bounded,
            ),
            Validation(
                validation.n,
                validation.hard.array(),
                validation.soft.array(),
                validation.nll,
                validation.ece,
            ),
            ReplayErrors(content.replay.sizes, content.replay.errors),
            content.seed,
            None if content.evidence is None else profile_json.unpack_evidence(content.evidence, m),
        )

    def __str__(self) -> str:
        checked = self.validation
        width = max(len("class"), *map(len, self.classes))
        lines = [
            f"source profile: {checked.n} validation rows of {len(self.classes)} classes, "
            f"{self.kind}, accuracy {self.accuracy:.3f}",
            f"calibration {self.calibrator.method}: "
            f"NLL {checked.nll[0]:.4f} → {checked.nll[1]:.4f}, "
            f"ECE {checked.ece[0]:.4f} → {checked.ece[1]:.4f}",
        ]
        if self.calibrator.bounded:
            lines.append(
                "  the fit ended at its bounds: the validation rows are separable, "
                "so more of them would help"
            )
        lines += ["", f"{'class':{width}}   share   soft  recall  precision"]
        for j, name in enumerate(self.classes):
            lines.append(
                f"{name:{width}}  {self.hard_prior[j]:6.3f} {self.soft_prior[j]:6.3f}  "
                f"{self.recalls[j]:6.3f}  {self.precisions[j]:9.3f}"
            )
        lines += ["", "error on replayed shifts (mean total variation), by window size"]
        names = list(self.replay.errors)
        lines.append(f"{'rows':>6}  " + "  ".join(f"{name:>7}" for name in names) + "  auto takes")
        for place, size in enumerate(self.replay.sizes):
            errors = [self.replay.errors[name][place] for name in names]
            best, second = sorted(errors)[:2]
            ahead = f" ({100 * (1 - best / second):.0f} % less error)" if second > 0 else ""
            lines.append(
                f"{size:6d}  "
                + "  ".join(f"{error:7.4f}" for error in errors)
                + f"  {self.replay.best(size)}{ahead}"
            )
        return "\n".join(lines)


def _shares(mass: Vector) -> Vector:
    shares: Vector = mass / mass.sum()
    return shares
