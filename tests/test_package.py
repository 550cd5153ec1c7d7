import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, and show what it said when it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment["NUMBA_OPT"] = "0"  # what is compiled here runs once
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    # The locked hatchling builds it: without isolation nothing is downloaded.
    uv = (sys.executable, "-m", "uv", "build", "--wheel", "--no-build-isolation")
    run(*uv, "--python", sys.executable, "--out-dir", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "stream_leip/py.typed" in names
    assert "stream_leip_connectors/py.typed" in names
    assert "stream_leip_connectors/cli.py" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "stream_leip",
        "stream_leip_connectors",
    }


def test_the_wheel_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    uv = (sys.executable, "-m", "uv")
    run(*uv, "venv", "--python", sys.executable, venv, cwd=tmp_path)
    constraints = tmp_path / "constraints.txt"
    # Hashes would be demanded of the wheel itself too, which has none in the lock.
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    constraints.write_text(re.sub(r" \\\n|^ +--hash.*\n", "\n", lock, flags=re.MULTILINE))
    scripts = venv / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    run(*uv, "pip", "install", "--python", python, "--constraint", constraints, wheel, cwd=tmp_path)

    assert re.search(r"\d+\.\d+", run(scripts / "stream-leip", "--version", cwd=tmp_path))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert first is not None
    script = tmp_path / "first_block.py"
    script.write_text(first[1], encoding="utf-8")
    run(python, script, cwd=tmp_path)
