"""The public names, by name, and what importing them costs."""

import subprocess
import sys

import stream_leip

NAMES = {
    "Adaptive", "Auto", "BBSE", "BadRowsError", "ClassifyAndCount", "EM", "Estimate", "Estimator",
    "Fading", "Fixed", "InputError", "KeyedMonitor", "LEIP", "MeanPosterior", "Monitor",
    "ProfileError",
    "RLLS", "Share", "Sliding", "SnapshotError", "SourceProfile", "StreamLeipError", "Tumbling",
    "Update", "fit_profile",
}  # fmt: skip


def test_public_names() -> None:
    assert set(stream_leip.__all__) == NAMES
    for name in NAMES:
        assert getattr(stream_leip, name).__doc__


def test_core_import_leaves_the_connectors_alone() -> None:
    code = (
        "import sys, stream_leip; "
        "print(sorted({'kafka', 'river', 'bokeh', 'typer', 'rich', 'stream_leip_connectors'}"
        " & {name.split('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
