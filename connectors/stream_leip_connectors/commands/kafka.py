"""stream-leip kafka run, and reset."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from stream_leip import SourceProfile
from stream_leip_connectors.commands.options import ConfigFile, option, settings_of
from stream_leip_connectors.config import KafkaSettings, MonitorSettings, load
from stream_leip_connectors.console import say
from stream_leip_connectors.stopping import stopping
from stream_leip_connectors.window_text import parse_window

app = typer.Typer(no_args_is_help=True, help="Watch a topic of predictions on Apache Kafka.")

Profile = Annotated[Path | None, option(MonitorSettings, "profile", "--profile v7.json")]
Window = Annotated[str | None, option(MonitorSettings, "window", "--window 'tumbling 1000'")]
EstimatorName = Annotated[str | None, option(MonitorSettings, "estimator", "--estimator EM")]
Level = Annotated[float | None, option(MonitorSettings, "level", "--level 0.99")]
Alarm = Annotated[str | None, option(MonitorSettings, "alarm", "--alarm 0.01")]
MaxRows = Annotated[int | None, option(MonitorSettings, "max_rows", "--max-rows 100000")]
TopK = Annotated[int | None, option(MonitorSettings, "top_k", "--top-k 20")]
MaxKeys = Annotated[int | None, option(MonitorSettings, "max_keys", "--max-keys 10000")]
Bootstrap = Annotated[str | None, option(KafkaSettings, "bootstrap", "--bootstrap a:9092,b:9092")]
Input = Annotated[str | None, option(KafkaSettings, "input", "--input predictions")]
Updates = Annotated[str | None, option(KafkaSettings, "updates", "--updates priors")]
Group = Annotated[str | None, option(KafkaSettings, "group", "--group fraud-priors")]
Letters = Annotated[str | None, option(KafkaSettings, "dead_letters", "--dead-letters bad")]
Changelog = Annotated[str | None, option(KafkaSettings, "changelog")]
CreateTopics = Annotated[
    bool | None, typer.Option("--create-topics", help=KafkaSettings.help("create_topics"))
]
Instance = Annotated[str | None, option(KafkaSettings, "instance", "--instance worker-1")]
Assignment = Annotated[str | None, option(KafkaSettings, "assignment", "--assignment eager")]
Start = Annotated[str | None, option(KafkaSettings, "start", "--start latest")]
OnLoss = Annotated[
    str | None, option(KafkaSettings, "on_retention_loss", "--on-retention-loss continue")
]
CommitEvery = Annotated[float | None, option(KafkaSettings, "commit_every", "--commit-every 5")]
Session = Annotated[float | None, option(KafkaSettings, "session_timeout", "--session-timeout 10")]
Transaction = Annotated[float | None, option(KafkaSettings, "transaction_timeout")]
Scores = Annotated[str | None, option(KafkaSettings, "scores", "--scores probs")]
Key = Annotated[str | None, option(KafkaSettings, "key", "--key shop")]
Time = Annotated[str | None, option(KafkaSettings, "time", "--time created_at")]
ContentType = Annotated[str | None, option(KafkaSettings, "content_type", "--content-type float32")]
Protocol = Annotated[
    str | None, option(KafkaSettings, "security_protocol", "--security-protocol SASL_SSL")
]
Mechanism = Annotated[
    str | None, option(KafkaSettings, "sasl_mechanism", "--sasl-mechanism SCRAM-SHA-256")
]
Username = Annotated[str | None, option(KafkaSettings, "username", "--username alice")]
PasswordFile = Annotated[Path | None, option(KafkaSettings, "password_file")]
CaFile = Annotated[Path | None, option(KafkaSettings, "ca_file", "--ca-file ca.pem")]
CertificateFile = Annotated[Path | None, option(KafkaSettings, "certificate_file")]
KeyFile = Annotated[Path | None, option(KafkaSettings, "key_file")]
MetricsPort = Annotated[int | None, option(KafkaSettings, "metrics_port", "--metrics-port 9400")]
MetricsHost = Annotated[str | None, option(KafkaSettings, "metrics_host")]
NotifyUrl = Annotated[str | None, option(KafkaSettings, "notify_url")]


@app.command()
def run(
    profile: Profile = None,
    bootstrap: Bootstrap = None,
    input: Input = None,
    updates: Updates = None,
    window: Window = None,
    estimator: EstimatorName = None,
    level: Level = None,
    alarm: Alarm = None,
    group: Group = None,
    instance: Instance = None,
    create_topics: CreateTopics = None,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="The state is of another profile, or of other settings: close its panes with a "
            "last update, and start clean.",
        ),
    ] = False,
    dead_letters: Letters = None,
    changelog: Changelog = None,
    key: Key = None,
    time: Time = None,
    scores: Scores = None,
    content_type: ContentType = None,
    start: Start = None,
    on_retention_loss: OnLoss = None,
    assignment: Assignment = None,
    commit_every: CommitEvery = None,
    session_timeout: Session = None,
    transaction_timeout: Transaction = None,
    max_rows: MaxRows = None,
    top_k: TopK = None,
    max_keys: MaxKeys = None,
    security_protocol: Protocol = None,
    sasl_mechanism: Mechanism = None,
    username: Username = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = None,
    notify_url: NotifyUrl = None,
    config: ConfigFile = None,
) -> None:
    """Watch a topic: an update for each key, to another topic, whenever a window ends.

    Exactly once: updates, dead letters, state and input offsets are one transaction, every second.
    SIGTERM and Ctrl-C finish the batch, commit, leave the group and exit with 0; whoever takes over
    goes on from there.

    Example: stream-leip kafka run --profile p.json --input predictions --create-topics
    """
    flags = dict(locals())
    taken = load(MonitorSettings, settings_of(MonitorSettings, flags), config).values
    io = load(KafkaSettings, settings_of(KafkaSettings, flags), config).values
    from stream_leip_connectors.kafka.monitor import KafkaMonitor  # noqa: PLC0415

    _log_to_people()
    monitor = KafkaMonitor(
        SourceProfile.load(taken.profile),
        io,
        parse_window(taken.window),
        taken.estimator,
        adopt=adopt,
        level=taken.level,
        alarm=None if taken.alarm == "off" else taken.alarm,
        max_rows=taken.max_rows,
        top_k=taken.top_k,
        max_keys=taken.max_keys,
    )
    with stopping(monitor.stop):
        monitor.run()
    say(str(monitor.total))


@app.command()
def reset(
    bootstrap: Bootstrap = None,
    input: Input = None,
    updates: Updates = None,
    group: Group = None,
    dead_letters: Letters = None,
    changelog: Changelog = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    security_protocol: Protocol = None,
    sasl_mechanism: Mechanism = None,
    username: Username = None,
    password_file: PasswordFile = None,
    ca_file: CaFile = None,
    certificate_file: CertificateFile = None,
    key_file: KeyFile = None,
    config: ConfigFile = None,
) -> None:
    """Forget the state and the offsets of a group: the next run begins anew.

    Updates and dead letters that were written stay.

    Example: stream-leip kafka reset --group stream-leip --yes
    """
    io = load(KafkaSettings, settings_of(KafkaSettings, dict(locals())), config).values
    from stream_leip_connectors.kafka.monitor import reset  # noqa: PLC0415

    what = f"the offsets of group {io.group!r} and its state in {io.changelog_topic!r}"
    if not yes:
        typer.confirm(f"Forget {what}?", abort=True, err=True)
    reset(io)
    say(f"forgot {what}")


def _log_to_people() -> None:
    """Our lines to stderr; the client's own would say the same, many times."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
