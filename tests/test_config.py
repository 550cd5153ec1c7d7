"""Settings: which of flag, variable, file and default holds, and what is said of bad ones."""

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict
from stream_leip_connectors.config import (
    DEFAULT_WINDOW,
    SECTIONS,
    KafkaSettings,
    MonitorSettings,
    Section,
    WatchSettings,
    WrongUsage,
)
from stream_leip_connectors.loading import load

from tests.commands import run

FILE = """
window = "tumbling 300"
estimator = "EM"
max_rows = 7

[watch]
state = "s"
"""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_flags_beat_variables_beat_the_file(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = empty / "c.toml"
    file.write_text(FILE)
    monkeypatch.setenv("STREAM_LEIP_WINDOW", "tumbling 200")
    monkeypatch.setenv("STREAM_LEIP_ESTIMATOR", "LEIP")
    found = load(MonitorSettings, {"window": "tumbling 100", "top_k": None}, file)
    assert found.values.window == "tumbling 100"
    assert found.values.estimator == "LEIP"
    assert found.values.max_rows == 7
    assert found.values.top_k is None
    assert found.origins == {
        "profile": "default",
        "window": "--window",
        "estimator": "STREAM_LEIP_ESTIMATOR",
        "level": "default",
        "alarm": "default",
        "max_rows": str(file),
        "top_k": "default",
        "max_keys": "default",
    }
    assert load(WatchSettings, {}, file).values.state == Path("s")


def test_the_file_is_named_or_found_here(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(MonitorSettings, {}).values.window == DEFAULT_WINDOW
    (empty / "stream-leip.toml").write_text(FILE)
    assert load(MonitorSettings, {}).origins["window"] == "stream-leip.toml"
    (empty / "other.toml").write_text('window = "tumbling 9"')
    monkeypatch.setenv("STREAM_LEIP_CONFIG", "other.toml")
    assert load(MonitorSettings, {}).values.window == "tumbling 9"
    monkeypatch.setenv("STREAM_LEIP_CONFIG", "none.toml")
    with pytest.raises(WrongUsage, match=r"STREAM_LEIP_CONFIG: none\.toml: no such file"):
        load(MonitorSettings, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("window = ", "not a readable TOML file"),
        (
            "windows = 3",
            "'windows' is no setting of the top table; there are alarm, estimator",
        ),
        ("[watches]", r"table \[watches\] is unknown; there are dashboard, kafka, log, watch"),
        ('[watch]\nstat = "x"', r"'stat' is no setting of table \[watch\]"),
        ('window = "often"', r"window: 'often': length: .* \(from c\.toml\)"),
        ("max_rows = 0", r"max_rows: 0: .*greater than or equal to 1 \(from c\.toml\)"),
        ('estimator = "BBSE"', r"estimator: 'BBSE': .*'LEIP' or 'EM' \(from c\.toml\)"),
    ],
)
def test_a_bad_file_is_wrong_usage(empty: Path, text: str, says: str) -> None:
    (empty / "c.toml").write_text(text)
    with pytest.raises(WrongUsage, match=says):
        _ = [load(section, {}, Path("c.toml")) for section in SECTIONS]


@pytest.mark.parametrize("name", ["password", "key_password", "notify_url"])
def test_a_secret_that_cannot_be_used_is_not_shown(empty: Path, name: str) -> None:
    (empty / "c.toml").write_text(f"[kafka]\n{name} = 31415926")
    with pytest.raises(WrongUsage, match=rf"{name}: .*valid string \(from c\.toml\)") as caught:
        load(KafkaSettings, {}, Path("c.toml"))
    assert "31415926" not in str(caught.value)


def test_several_values_that_are_no_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_LEIP_KAFKA_MODELS", "v7=v7.json")
    with pytest.raises(WrongUsage, match=r"^STREAM_LEIP_KAFKA_MODELS: it is no JSON; write"):
        load(KafkaSettings, {})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"updates": "predictions"}, r"^topics: 'predictions' is named twice"),
        ({"scope": "topic", "updates": "stream-leip-panes"}, r"^topics: 'stream-leip-panes' is"),
        ({"notify_url": "ftp://sesame"}, r"^notify_url: it is no address .* --notify-url"),
    ],
)
def test_settings_of_the_connector_that_cannot_be(given: dict[str, str], says: str) -> None:
    with pytest.raises(WrongUsage, match=says) as caught:
        load(KafkaSettings, given)
    assert "sesame" not in str(caught.value)


def test_a_bad_variable_names_itself(monkeypatch: pytest.MonkeyPatch, empty: Path) -> None:
    monkeypatch.setenv("STREAM_LEIP_MAX_ROWS", "many")
    with pytest.raises(WrongUsage, match=r"max_rows: 'many': .*\(from STREAM_LEIP_MAX_ROWS\)"):
        load(MonitorSettings, {})
    done = run("config", "show", cwd=empty)
    assert done.returncode == 2


def test_config_show(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty / "stream-leip.toml").write_text(FILE)
    monkeypatch.setenv("STREAM_LEIP_WATCH_KEY", "shop")
    monkeypatch.setenv("STREAM_LEIP_WINDWO", "x")
    done = run("config", "show", cwd=empty)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["watch.key", "shop", "STREAM_LEIP_WATCH_KEY", "STREAM_LEIP_WATCH_KEY"] in lines
    assert ["max_rows", "7", "stream-leip.toml", "STREAM_LEIP_MAX_ROWS"] in lines
    assert ["watch.output", "-", "default", "STREAM_LEIP_WATCH_OUTPUT"] in lines
    assert "STREAM_LEIP_WINDWO is set, but is no setting" in done.stderr


def test_a_connector_can_have_a_section_of_its_own(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broker(Section):
        model_config = SettingsConfigDict(env_prefix="STREAM_LEIP_BROKER_")
        table: ClassVar[str] = "broker"

        bootstrap: str = Field(default="localhost:9092", description="Where it is.")
        password: SecretStr | None = Field(default=None, description="Yours.")

    (empty / "stream-leip.toml").write_text('[broker]\nbootstrap = "a:1"\npassword = "p"\n')
    monkeypatch.setenv("STREAM_LEIP_BROKER_BOOTSTRAP", "b:2")
    found = load(Broker, {})
    assert found.values.bootstrap == "b:2"
    assert found.origins == {
        "bootstrap": "STREAM_LEIP_BROKER_BOOTSTRAP",
        "password": "stream-leip.toml",
    }
    assert "p" not in str(found.values.password)


def test_every_setting_says_what_it_does() -> None:
    for section in SECTIONS:
        for name in section.model_fields:
            assert len(section.help(name)) > 20


@pytest.mark.parametrize(
    ("verb", "sections"),
    [
        (["watch"], [MonitorSettings, WatchSettings]),
        (["kafka", "run"], [MonitorSettings, KafkaSettings]),
    ],
)
def test_settings_are_an_option_with_an_example(
    empty: Path, verb: list[str], sections: list[type[Section]]
) -> None:
    done = run(*verb, "--help", cwd=empty)
    for section in sections:
        for name in section.model_fields:
            # What is typed, everybody on the machine can see: passwords have no flag. Models have
            # --profile NAME=PATH.
            none = name.endswith("password") or name == "models"
            assert (f"--{name.replace('_', '-')} " in done.stdout) != none
    assert done.stdout.count("Example:") > 10


def test_completion_is_there(empty: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [Path(sys.executable).with_name("stream-leip"), "watch", "--window", ""],
            env={
                "PATH": "/usr/bin:/bin",
                "_STREAM_LEIP_COMPLETE": f"complete_{shell}",
                "COMP_WORDS": "stream-leip watch --window tumb",
                "COMP_CWORD": "3",
                "_TYPER_COMPLETE_ARGS": "stream-leip watch --window tumb",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            cwd=empty,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "tumbling 1000" in done.stdout, (shell, done.stderr)


def test_the_library_does_not_import_the_settings() -> None:
    code = "import sys, stream_leip; print({'pydantic', 'pydantic_settings'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
