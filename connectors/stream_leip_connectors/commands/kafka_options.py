"""The options of the Kafka verbs, in groups; their texts stand with the settings."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stream_leip_connectors.commands import options
from stream_leip_connectors.commands.options import option
from stream_leip_connectors.config import KafkaSettings, MonitorSettings

# What monitors are made with.
MONITOR: dict[str, Any] = {
    "profile": Annotated[
        list[str] | None,
        typer.Option(
            "--profile",
            metavar="[NAME=]PATH",
            help=MonitorSettings.help("profile") + " Several models on one topic: once for each, "
            "with its name. Default: profile.json. "
            "Example: --profile v7=v7.json --profile v8=v8.json",
            show_default=False,
        ),
    ],
    **options.MONITOR,
}
# Where the connector reads and writes.
TOPICS: dict[str, Any] = {
    "bootstrap": Annotated[
        str | None, option(KafkaSettings, "bootstrap", "--bootstrap a:9092,b:9092")
    ],
    "input": Annotated[str | None, option(KafkaSettings, "input", "--input predictions")],
    "updates": Annotated[str | None, option(KafkaSettings, "updates", "--updates priors")],
    "group": Annotated[str | None, option(KafkaSettings, "group", "--group fraud-priors")],
    "dead_letters": Annotated[
        str | None, option(KafkaSettings, "dead_letters", "--dead-letters bad")
    ],
    "changelog": Annotated[
        str | None, option(KafkaSettings, "changelog", "--changelog fraud-state")
    ],
    "client": Annotated[str | None, option(KafkaSettings, "client", "--client confluent")],
    "scope": Annotated[str | None, option(KafkaSettings, "scope", "--scope topic")],
    "create_topics": Annotated[
        bool | None, option(KafkaSettings, "create_topics", "--input events --create-topics")
    ],
}
# How it works.
WORKING: dict[str, Any] = {
    "delivery": Annotated[
        str | None, option(KafkaSettings, "delivery", "--delivery at-least-once")
    ],
    "wait": Annotated[float | None, option(KafkaSettings, "wait", "--wait 0")],
    "instance": Annotated[str | None, option(KafkaSettings, "instance", "--instance worker-1")],
    "assignment": Annotated[str | None, option(KafkaSettings, "assignment", "--assignment eager")],
    "start": Annotated[str | None, option(KafkaSettings, "start", "--start latest")],
    "on_retention_loss": Annotated[
        str | None, option(KafkaSettings, "on_retention_loss", "--on-retention-loss continue")
    ],
    "commit_every": Annotated[
        float | None, option(KafkaSettings, "commit_every", "--commit-every 5")
    ],
    "session_timeout": Annotated[
        float | None, option(KafkaSettings, "session_timeout", "--session-timeout 10")
    ],
    "transaction_timeout": Annotated[
        float | None, option(KafkaSettings, "transaction_timeout", "--transaction-timeout 30")
    ],
    "scores": Annotated[str | None, option(KafkaSettings, "scores", "--scores probs")],
    "key": Annotated[str | None, option(KafkaSettings, "key", "--key shop")],
    "time": Annotated[str | None, option(KafkaSettings, "time", "--time created_at")],
    "model_field": Annotated[
        str | None, option(KafkaSettings, "model_field", "--model-field model")
    ],
    "model_header": Annotated[
        str | None, option(KafkaSettings, "model_header", "--model-header model")
    ],
    "lateness": Annotated[float | None, option(KafkaSettings, "lateness", "--lateness 60")],
    "idle": Annotated[float | None, option(KafkaSettings, "idle", "--idle 30")],
    "content_type": Annotated[
        str | None, option(KafkaSettings, "content_type", "--content-type float32")
    ],
}
# Who it is.
SECURITY: dict[str, Any] = {
    "security_protocol": Annotated[
        str | None, option(KafkaSettings, "security_protocol", "--security-protocol SASL_SSL")
    ],
    "sasl_mechanism": Annotated[
        str | None, option(KafkaSettings, "sasl_mechanism", "--sasl-mechanism SCRAM-SHA-256")
    ],
    "username": Annotated[str | None, option(KafkaSettings, "username", "--username alice")],
    "password_file": Annotated[
        Path | None, option(KafkaSettings, "password_file", "--password-file /run/secrets/kafka")
    ],
    "ca_file": Annotated[Path | None, option(KafkaSettings, "ca_file", "--ca-file ca.pem")],
    "certificate_file": Annotated[
        Path | None, option(KafkaSettings, "certificate_file", "--certificate-file us.pem")
    ],
    "key_file": Annotated[Path | None, option(KafkaSettings, "key_file", "--key-file us.key")],
}
# What operators see of it.
OPERATING: dict[str, Any] = {
    "metrics_port": Annotated[
        int | None, option(KafkaSettings, "metrics_port", "--metrics-port 9400")
    ],
    "metrics_host": Annotated[
        str | None, option(KafkaSettings, "metrics_host", "--metrics-host 0.0.0.0")
    ],
    "notify_url": Annotated[
        str | None,
        option(KafkaSettings, "notify_url", "--notify-url https://hooks.example.com/mix"),
    ],
}
