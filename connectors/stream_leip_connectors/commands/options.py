"""Options that more than one verb takes; their texts stand with the settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stream_leip_connectors.config import Section

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; flags and variables STREAM_LEIP_… beat it. "
        "Unless given: $STREAM_LEIP_CONFIG, or stream-leip.toml here. See 'config show'.",
    ),
]


def option(
    section: type[Section], name: str, example: str = "", complete: Callable[[], Any] | None = None
) -> Any:
    """The option of a setting; its default is the setting's own, and shown as such."""
    default = section.model_fields[name].default
    text = section.help(name) + (f" Example: {example}" if example else "")
    return typer.Option(
        "--" + name.replace("_", "-"),
        help=text,
        show_default=False if default is None else str(default),
        autocompletion=complete,
    )


def settings_of(section: type[Section], flags: dict[str, Any]) -> dict[str, Any]:
    """The flags of a verb that are settings of a section."""
    return {name: flags[name] for name in section.model_fields if name in flags}
