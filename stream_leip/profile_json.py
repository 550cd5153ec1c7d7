"""The profile's file: JSON, versioned, with a checksum over its content."""

import base64
import hashlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Kind
from stream_leip.calibration import Method
from stream_leip.errors import ProfileError
from stream_leip.validation import ClassFeatures, Evidence

FORMAT = "stream-leip profile"
VERSION = 2


class Packed(msgspec.Struct, forbid_unknown_fields=True):
    """A large array: type, shape and its bytes in base64."""

    dtype: str
    shape: tuple[int, ...]
    base64: str

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Packed":
        """Pack an array, little-endian and in C order."""
        dtype = array.dtype.newbyteorder("<")
        data = np.ascontiguousarray(array, dtype).tobytes()
        return cls(dtype.str, array.shape, base64.b64encode(data).decode("ascii"))

    def array(self) -> NDArray[Any]:
        """The array, writable and of native order."""
        dtype = np.dtype(self.dtype)
        flat = np.frombuffer(base64.b64decode(self.base64, validate=True), dtype)
        return flat.reshape(self.shape).astype(dtype.newbyteorder("="))


class CalibratorContent(msgspec.Struct, forbid_unknown_fields=True):
    """See `Calibrator`."""

    method: Method
    bounded: bool
    scale: list[float]
    bias: list[float]


class ValidationContent(msgspec.Struct, forbid_unknown_fields=True):
    """See `Validation`."""

    n: int
    nll: tuple[float, float]
    ece: tuple[float, float]
    hard: Packed
    soft: Packed


class ReplayContent(msgspec.Struct, forbid_unknown_fields=True):
    """See `ReplayErrors`."""

    sizes: tuple[int, ...]
    errors: dict[str, tuple[float, ...]]


class FeaturesContent(msgspec.Struct, forbid_unknown_fields=True):
    """See `ClassFeatures`."""

    groups: Packed
    centres: Packed
    factor: Packed
    offset: float
    means: Packed
    covariances: Packed
    variances: Packed
    counts: Packed


class EvidenceContent(msgspec.Struct, forbid_unknown_fields=True):
    """See `Evidence`."""

    covariance: Packed
    hard: Packed
    soft: Packed | None
    normaliser: Packed
    rows: Packed
    labels: Packed
    features: FeaturesContent


class Content(msgspec.Struct, forbid_unknown_fields=True):
    """See `SourceProfile`."""

    classes: tuple[str, ...]
    kind: Kind
    seed: int
    calibrator: CalibratorContent
    replay: ReplayContent
    validation: ValidationContent
    evidence: EvidenceContent | None


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    version: int
    checksum: str
    content: msgspec.Raw


def checksum(content: Content) -> str:
    """SHA-256 of the content, however the file lays it out."""
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def encode(content: Content) -> bytes:
    """The whole file."""
    raw = msgspec.Raw(msgspec.json.encode(content))
    envelope = _Envelope(FORMAT, VERSION, checksum(content), raw)
    return msgspec.json.format(msgspec.json.encode(envelope), indent=1) + b"\n"


def decode(data: bytes, path: str) -> Content:
    """The content of a file, or a ProfileError that says why not."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"{path}: not a profile, or cut short: {error}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ProfileError(f"{path}: not a stream-leip profile; make one with 'stream-leip fit'")
    version = head.get("version")
    if version != VERSION:
        remedy = (
            "upgrade stream-leip"
            if isinstance(version, int) and version > VERSION
            else ("fit the profile again")
        )
        raise ProfileError(
            f"{path}: profile version {version!r}, but this release reads {VERSION}; {remedy}"
        )
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        content = msgspec.json.decode(envelope.content, type=Content)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProfileError(f"{path}: corrupt: {error}; fit the profile again") from error
    if checksum(content) != envelope.checksum:
        raise ProfileError(
            f"{path}: corrupt: the content does not match its checksum; "
            "restore the file, or fit the profile again"
        )
    return content


_FEATURES = ("groups", "centres", "factor", "means", "covariances", "variances", "counts")
_EVIDENCE = ("covariance", "hard", "normaliser", "rows", "labels")


def pack_evidence(evidence: Evidence) -> EvidenceContent:
    """Evidence as the file has it."""
    features = evidence.features
    return EvidenceContent(
        **{name: Packed.of(getattr(evidence, name)) for name in _EVIDENCE},
        soft=None if evidence.soft is evidence.hard else Packed.of(evidence.soft),
        features=FeaturesContent(
            offset=features.offset,
            **{name: Packed.of(getattr(features, name)) for name in _FEATURES},
        ),
    )


def unpack_evidence(content: EvidenceContent, m: int) -> Evidence:
    """Evidence from a file; ValueError if its arrays are not those of `m` classes."""
    held = content.features
    features = {name: getattr(held, name).array() for name in _FEATURES}
    arrays = {name: getattr(content, name).array() for name in _EVIDENCE}
    g, kept = len(features["factor"]), len(arrays["labels"])
    arrays["soft"] = arrays["hard"] if content.soft is None else content.soft.array()
    parameters = len(arrays["hard"])
    asked = {
        "covariance": (m, m),
        "soft": (parameters, parameters),
        "hard": (parameters, parameters),
        "normaliser": (m + 1 if parameters == 2 * m else 0,),
        "rows": (kept, m),
        "labels": (kept,),
        "groups": (m,),
        "centres": (g, g),
        "factor": (g, g),
        "means": (2 * g, m),
        "covariances": (g, 2 * g, 2 * g),
        "variances": (2 * g + 1,),
        "counts": (m,),
    }
    for name, array in {**arrays, **features}.items():
        if array.shape != asked[name]:
            raise ValueError(f"its {name} has the shape {array.shape}, not {asked[name]}")
    if parameters not in (m, m + 1, 2 * m):
        raise ValueError(f"it has {parameters} parameters for {m} classes")
    for name, below in (("labels", m), ("groups", g)):
        array = {**arrays, **features}[name]
        if array.size and not (array.min() >= 0 and array.max() < below):
            raise ValueError(f"its {name} are not between 0 and {below - 1}")
    return Evidence(**arrays, features=ClassFeatures(offset=held.offset, **features))
