"""Settings: flags beat the environment, which beats a file, which beats the defaults."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from stream_leip import InputError
from stream_leip_connectors.security import Security
from stream_leip_connectors.window_text import parse_window

DEFAULT_FILE = Path("stream-leip.toml")
FILE_VARIABLE = "STREAM_LEIP_CONFIG"
DEFAULT_WINDOW = "adaptive"


class WrongUsage(InputError):
    """A setting that cannot be meant; the command ends with exit code 2."""


class Section(BaseSettings):
    """Settings that stand together: a table of the file, a prefix of the environment.

    A connector of its own subclasses this with its `table` and an `env_prefix`; `load` does the
    rest.
    """

    model_config = SettingsConfigDict(extra="forbid", frozen=True, env_prefix="STREAM_LEIP_")
    table: ClassVar[str] = ""

    @classmethod
    def variable(cls, name: str) -> str:
        """The environment variable of a setting."""
        return f"{cls.model_config.get('env_prefix', '')}{name}".upper()

    @classmethod
    def help(cls, name: str) -> str:
        """What a setting does, written once for the file, the flags and `config show`."""
        return str(cls.model_fields[name].description)


class MonitorSettings(Section):
    """What a monitor is made with, wherever its events come from."""

    profile: Path = Field(
        default=Path("profile.json"), description="The source profile, made by 'stream-leip fit'."
    )
    window: str = Field(
        default=DEFAULT_WINDOW,
        description="Which events are in scope: 'adaptive' (as many as still tell about the "
        "present; an update every 1000 events, or 'adaptive every 500', and whenever the alarm "
        "changes), 'tumbling 1000' (1000 events, then the next), 'tumbling 60s lateness 5s' (by "
        "event time), 'sliding 2000 every 500', 'sliding 10m every 1m', 'fading 5000'.",
    )
    estimator: Literal["auto", "LEIP", "EM"] = Field(
        default="auto",
        description="Which estimate is the prior: auto takes what did best on replayed shifts of "
        "your validation data. LEIP and EM are both in every update.",
    )
    level: float = Field(
        default=0.95, gt=0.0, lt=1.0, description="Of the intervals, low to high, in each update."
    )
    alarm: float | Literal["auto", "off"] = Field(
        default="auto",
        description="The share of streams without a change that may ever raise the alarm, such as "
        "0.05; or 'off'. 'auto' is 0.05 with adaptive windows and off with others.",
    )
    max_rows: int | None = Field(
        default=None,
        ge=1,
        description="Most rows to keep in memory, for each key; beyond, rows are thinned.",
    )
    top_k: int | None = Field(
        default=None,
        ge=1,
        description="Keep each row's largest entries, this many, for many classes.",
    )
    max_keys: int | None = Field(
        default=None,
        ge=1,
        description="Most keys at a time; a new one takes the place of the one longest silent.",
    )

    @field_validator("alarm")
    @classmethod
    def _a_share(cls, alarm: float | str) -> float | str:
        if not isinstance(alarm, str) and not 0.0 < alarm < 1.0:
            raise ValueError("use a share such as 0.05, 'auto', or 'off'")
        return alarm

    @field_validator("window")
    @classmethod
    def _a_window(cls, text: str) -> str:
        parse_window(text)
        return text


class WatchSettings(Section):
    """Where `watch` reads, writes, and finds things in its input."""

    model_config = SettingsConfigDict(env_prefix="STREAM_LEIP_WATCH_")
    table: ClassVar[str] = "watch"

    format: Literal["jsonl", "csv", "parquet", "npz", "float32"] | None = Field(
        default=None, description="Of the input; by its name, or jsonl on stdin, unless given."
    )
    scores: str | None = Field(
        default=None,
        description="JSON field with the scores (a list, or an object by class); 'none' if each "
        "class has a field or column of its own. Found by itself where obvious.",
    )
    time: str | None = Field(
        default=None,
        description="Field or column of the event time: epoch seconds, or RFC 3339 with a zone. "
        "Found by itself if it is called time or timestamp; 'none' for no time.",
    )
    key: str | None = Field(
        default=None,
        description="Field or column that tells streams apart, such as a shop: each gets a monitor "
        "of its own. Found by itself if it is called key; 'none' for one stream.",
    )
    output: Path | None = Field(
        default=None,
        description="Updates go to this file, not to stdout. With --state, a run that resumes "
        "takes back what was written after the state, so that no update is there twice.",
    )
    state: Path | None = Field(
        default=None,
        description="Keep the state in this file, and resume from it: all monitors, and how far "
        "the input was read.",
    )
    state_every: float = Field(
        default=10.0,
        gt=0,
        description="Seconds between two writes of the state; it is written at the end too.",
    )
    dead_letters: Path | None = Field(
        default=None,
        description="Lines that cannot be used go here, as JSON lines with number and reason. "
        "Late events as well.",
    )


class KafkaSettings(Section, Security):
    """Where the Kafka connector reads and writes, and as which member of its group."""

    model_config = SettingsConfigDict(env_prefix="STREAM_LEIP_KAFKA_")
    table: ClassVar[str] = "kafka"

    bootstrap: str = Field(
        default="localhost:9092", description="The brokers: host:port, or several with commas."
    )
    input: str = Field(default="predictions", description="The topic that events are read from.")
    updates: str = Field(default="priors", description="The topic that prior updates go to.")
    group: str = Field(
        default="stream-leip",
        description="The consumer group, and so the name of the application: all processes of one "
        "group share its partitions.",
    )
    dead_letters: str | None = Field(
        default=None,
        description="The topic for events that cannot be used; INPUT-dead-letters unless given, "
        "'none' to count them only.",
    )
    changelog: str | None = Field(
        default=None,
        description="The compacted topic that keeps the state; GROUP-changelog unless given.",
    )
    create_topics: bool = Field(default=False, description="Make the topics that are missing.")
    instance: str | None = Field(
        default=None,
        description="A name for this process that stays over restarts: it gets its partitions "
        "back at once. Each process needs its own.",
    )
    assignment: Literal["cooperative", "eager"] = Field(
        default="cooperative",
        description="How partitions move when processes come and go: only those that must, or "
        "all. The same for the whole group.",
    )
    start: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where a group that is new begins to read."
    )
    on_retention_loss: Literal["stop", "continue"] = Field(
        default="stop",
        description="What to do when events were deleted before they were read: stop with an "
        "error, or continue with those that are left.",
    )
    commit_every: float = Field(
        default=1.0, gt=0, description="Seconds from one transaction to the next."
    )
    session_timeout: float = Field(
        default=45.0, gt=0, description="Seconds after which a silent process is given up."
    )
    transaction_timeout: float = Field(
        default=10.0,
        gt=0,
        description="Seconds after which a transaction that a dead process left open is aborted.",
    )
    scores: str = Field(
        default="scores",
        description="JSON field with the scores (a list, or an object by class); 'none' if each "
        "class has a field of its own.",
    )
    key: str | None = Field(
        default=None,
        description="JSON field of the key; the message's key unless given, 'none' for one stream "
        "a partition.",
    )
    time: str | None = Field(
        default=None,
        description="JSON field of the event time; the message's timestamp unless given.",
    )
    content_type: Literal["json", "float32"] = Field(
        default="json", description="Of messages that have no header content-type."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Answer /metrics (for Prometheus), /health and /ready at this port; 0 takes a "
        "free one.",
    )
    metrics_host: str = Field(
        default="127.0.0.1", description="Who may ask: this machine, or 0.0.0.0 for everybody."
    )
    notify_url: SecretStr | None = Field(
        default=None,
        description="Post a JSON notice here when an alarm warns, is raised or settles, and when "
        "the check is flagged.",
    )

    @property
    def letters_topic(self) -> str | None:
        """Where dead letters go; None for nowhere."""
        if self.dead_letters is None:
            return f"{self.input}-dead-letters"
        return None if self.dead_letters == "none" else self.dead_letters

    @property
    def changelog_topic(self) -> str:
        """Where the state is kept."""
        return self.changelog or f"{self.group}-changelog"


SECTIONS: tuple[type[Section], ...] = (MonitorSettings, WatchSettings, KafkaSettings)
S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Loaded(Generic[S]):
    """Settings, and where each is from: "default", "--flag", a variable, or the file."""

    values: S
    origins: dict[str, str]


def load(section: type[S], flags: Mapping[str, Any], file: Path | None = None) -> Loaded[S]:
    """Settings of a section.

    Parameters
    ----------
    section
        Which settings.
    flags
        What the command line gave; None for what it did not.
    file
        A TOML file. Unless given, the one that STREAM_LEIP_CONFIG names, or stream-leip.toml here.

    Raises
    ------
    WrongUsage
        If a value cannot be used, or the file has a setting that is none. It says which and where.

    Examples
    --------
    >>> from stream_leip_connectors.config import MonitorSettings, load
    >>> found = load(MonitorSettings, {"window": "sliding 2000 every 500"})
    >>> found.values.window, found.origins["window"], found.origins["estimator"]
    ('sliding 2000 every 500', '--window', 'default')
    """
    path = find_file(file)
    held = _table(path, section)
    given = {name: value for name, value in flags.items() if value is not None}
    environment: dict[str, Any] = {}

    class Sourced(section):  # type: ignore[valid-type, misc]  # the file is known only here
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            environment.update(env_settings())
            return init_settings, env_settings, InitSettingsSource(settings_cls, held)

    origins = dict.fromkeys(section.model_fields, "default")
    failed: ValidationError | None = None
    try:
        values = Sourced(**given)
    except ValidationError as error:
        failed = error
    origins |= dict.fromkeys(held, str(path))
    origins |= {name: section.variable(name) for name in environment}
    origins |= {name: "--" + name.replace("_", "-") for name in given}
    if failed is not None:
        raise WrongUsage(_explain(failed, origins))
    return Loaded(values, origins)


def find_file(file: Path | None) -> Path | None:
    """The configuration file, if there is one."""
    named = file or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    if named is not None and not named.is_file():
        source = "--config" if file else FILE_VARIABLE
        raise WrongUsage(f"{source}: {named}: no such file")
    return named or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)


def unknown_variables() -> list[str]:
    """Variables with our prefix that no section knows, as a misspelt one would be."""
    known = {each.variable(name) for each in SECTIONS for name in each.model_fields}
    ours = {name for name in os.environ if name.startswith("STREAM_LEIP_")}
    return sorted(ours - known - {FILE_VARIABLE})


def _table(path: Path | None, section: type[Section]) -> dict[str, Any]:
    """The section's table of the file."""
    if path is None:
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WrongUsage(f"{path}: not a readable TOML file: {error}") from error
    tables = {each.table for each in SECTIONS} - {""}
    top = {name: value for name, value in content.items() if not isinstance(value, dict)}
    odd = [name for name, value in content.items() if isinstance(value, dict)]
    odd = [name for name in odd if name not in tables | {section.table}]
    if odd:
        raise WrongUsage(f"{path}: table [{odd[0]}] is unknown; there are {_listed(tables)}")
    held: Any = content.get(section.table, {}) if section.table else top
    strange = [name for name in held if name not in section.model_fields]
    if strange:
        raise WrongUsage(
            f"{path}: {strange[0]!r} is no setting of "
            f"{f'table [{section.table}]' if section.table else 'the top table'}; "
            f"there are {_listed(section.model_fields)}"
        )
    return dict(held)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))


def _explain(error: ValidationError, origins: dict[str, str]) -> str:
    first = error.errors()[0]
    says = str(first["msg"]).removeprefix("Value error, ")
    if not first["loc"]:  # of settings together: their values, passwords among them, stay unsaid
        return says
    name = str(first["loc"][0])
    origin = origins.get(name, "")
    if says.startswith(f"{name}: "):
        return f"{says} (from {origin})"
    return f"{name}: {first['input']!r}: {says} (from {origin})"
