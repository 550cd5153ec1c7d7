"""Settings, by what they are of; `loading` finds their values."""

from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    SettingsConfigDict,
)

from stream_leip import InputError
from stream_leip_connectors.addresses import Address, host_of
from stream_leip_connectors.security import ClientName, Security
from stream_leip_connectors.window_text import parse_window

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

    @classmethod
    def is_secret(cls, name: str) -> bool:
        """Whether a setting's value must never be shown."""
        annotation = cls.model_fields[name].annotation
        return SecretStr in (annotation, *get_args(annotation))


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

    def options(self) -> dict[str, Any]:
        """The arguments of a keyed monitor beside profile, window and estimator."""
        return {
            "level": self.level,
            "alarm": None if self.alarm == "off" else self.alarm,
            "max_rows": self.max_rows,
            "top_k": self.top_k,
            "max_keys": self.max_keys,
        }

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
    client: ClientName = Field(
        default="kafka-python",
        description="What speaks to the brokers: 'confluent' is librdkafka, and needs the extra "
        "of that name. The same for the whole group.",
    )
    delivery: Literal["exactly-once", "at-least-once"] = Field(
        default="exactly-once",
        description="Whether updates are written in transactions. 'at-least-once' is for brokers "
        "that forbid them: after a crash updates come again, with the same values.",
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
    wait: float = Field(
        default=60.0,
        ge=0,
        description="Seconds to wait, at the start, for a broker that nobody listens at; later it "
        "is waited for without end.",
    )
    idle: float | None = Field(
        default=None,
        ge=0,
        description="With windows by time: close those of a key without events once its "
        "partition's time is this many seconds past them. The time goes on with the clock when "
        "the partition has no more events. Not before the key's next event, unless given. With "
        "--scope topic: seconds without an event after which nobody waits for a partition.",
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
    scope: Literal["key", "topic"] = Field(
        default="key",
        description="What a mix is of: each key, or the whole topic, over all its partitions. The "
        "whole topic needs windows by time, or adaptive ones.",
    )
    lateness: float = Field(
        default=5.0,
        ge=0,
        description="With --scope topic: seconds by which an event may be older than the newest of "
        "its partition, where the window has no lateness of its own.",
    )
    models: dict[str, Path] = Field(
        default={},
        description="Several models on one topic: their profiles by name, with flags --profile "
        "NAME=PATH for each. Their events say which they are of: model_field or model_header.",
    )
    model_field: str | None = Field(
        default=None, description="JSON field that names an event's model, where there are several."
    )
    model_header: str | None = Field(
        default=None,
        description="Message header that names an event's model, where there are several.",
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

    @model_validator(mode="after")
    def _names_models(self) -> "KafkaSettings":
        named = sum(each is not None for each in (self.model_field, self.model_header))
        if named > 1:
            raise ValueError("model_field, model_header: set one of them")
        if self.models and not named:
            raise ValueError("models: which event is of which? Set model_field or model_header")
        return self

    @model_validator(mode="after")
    def _names_topics(self) -> "KafkaSettings":
        named = [self.input, self.updates, self.changelog_topic, self.letters_topic]
        if self.scope == "topic":
            named.append(self.panes_topic)
        for name in named:
            if name is not None and named.count(name) > 1:
                raise ValueError(f"topics: {name!r} is named twice; each needs one of its own")
        return self

    @field_validator("notify_url")
    @classmethod
    def _an_address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            host_of(url.get_secret_value())
        return url

    @property
    def letters_topic(self) -> str | None:
        """Where dead letters go; None for nowhere."""
        if self.dead_letters is None:
            return f"{self.input}-dead-letters"
        return None if self.dead_letters == "none" else self.dead_letters

    @property
    def panes_topic(self) -> str:
        """Where rows go with --scope topic, on their way to the one monitor."""
        return f"{self.group}-panes"

    @property
    def changelog_topic(self) -> str:
        """Where the state is kept."""
        return self.changelog or f"{self.group}-changelog"


class DashboardSettings(Section, Address):
    """Where the dashboard is served, and who may look."""

    model_config = SettingsConfigDict(env_prefix="STREAM_LEIP_DASHBOARD_")
    table: ClassVar[str] = "dashboard"


class LogSettings(Section):
    """How lines of the log look, of every verb that writes one."""

    model_config = SettingsConfigDict(env_prefix="STREAM_LEIP_LOG_")
    table: ClassVar[str] = "log"

    format: Literal["human", "json"] = Field(
        default="human", description="Of the log's lines on stderr: for people, or JSON lines."
    )


SECTIONS: tuple[type[Section], ...] = (
    MonitorSettings,
    WatchSettings,
    KafkaSettings,
    DashboardSettings,
    LogSettings,
)
