"""Every example script runs, and prints something."""

import runpy
from pathlib import Path

import pytest

NEED_KAFKA = ("07", "08")
FOLDER = Path(__file__).parents[1] / "examples"
# That of Spark runs in tests/spark, in processes of its own.
EXAMPLES = sorted({*FOLDER.glob("[0-9]*.py")} - {FOLDER / "11_spark_kafka.py"})


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.needs_kafka] if path.name.startswith(NEED_KAFKA) else [],
        )
        for path in EXAMPLES
    ],
)
def test_an_example_runs(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 3
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
