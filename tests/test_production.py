"""The production page has every error and every setting; what is to be deployed is well formed."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from stream_leip_connectors.config import SECTIONS, KafkaSettings

from tests.error_texts import first_words, texts

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
DEPLOY = ROOT / "deploy"
VARIABLES = {each.variable(name) for each in SECTIONS for name in each.model_fields}


@pytest.mark.parametrize(("file", "text"), sorted(set(texts())))
def test_every_error_is_on_the_page(file: str, text: str) -> None:
    assert first_words(text) in PAGE, f"{file}: {text}"


def test_errors_are_found() -> None:
    assert len(set(texts())) > 30
    assert first_words("…: the state of profile …, not of …; use") == "the state of profile"
    assert first_words("no key; give one") == "no key; give one"


def test_every_setting_is_on_the_page() -> None:
    missing = [name for name in KafkaSettings.model_fields if f"`{name}`" not in PAGE]
    assert missing == []


def ours(names: Any) -> set[str]:
    return {name for name in names if str(name).startswith("STREAM_LEIP_")}


def test_the_container_file() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    assert hadolint is not None
    done = subprocess.run([hadolint, DEPLOY / "Containerfile"], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert ours(re.findall(r"\b[A-Z_]+(?==)", text)) <= VARIABLES


def test_the_compose_file_is_one_by_its_specification() -> None:
    lint = Path(sys.executable).with_name("check-jsonschema")
    schema = ["--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [lint, *schema, DEPLOY / "compose.yaml"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout.decode()


def test_the_compose_file() -> None:
    held = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = held["services"]
    for service in services.values():
        assert "image" in service or (DEPLOY / service["build"]["context"]).is_dir()
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source.startswith("./") or source in held["volumes"]
    workers = [service for name, service in services.items() if name.startswith("stream-leip-")]
    instances = {worker["environment"]["STREAM_LEIP_KAFKA_INSTANCE"] for worker in workers}
    assert len(instances) == len(workers) == 2
    for worker in workers:
        assert set(worker["environment"]) <= VARIABLES


def test_the_systemd_unit(tmp_path: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names keep their case
    unit = DEPLOY / "stream-leip@.service"
    parser.read(unit)
    assert parser.sections() == ["Unit", "Service", "Install"]
    assert parser["Service"]["ExecStart"].endswith("stream-leip kafka run")
    text = unit.read_text(encoding="utf-8")
    named = ours(re.findall(r"^Environment=(\w+)=", text, re.MULTILINE))
    assert named - {"STREAM_LEIP_CONFIG"} <= VARIABLES
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        here = Path(sys.executable).with_name("stream-leip")
        copy = tmp_path / unit.name
        copy.write_text(text.replace("/opt/stream-leip/bin/stream-leip", str(here)))
        done = subprocess.run([analyze, "verify", copy], capture_output=True, check=False)
        assert done.stderr + done.stdout == b""  # what it complains of is no failure
