"""Options that more than one verb takes; their texts stand with the settings."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from stream_leip_connectors.config import LogSettings, MonitorSettings, Section, WrongUsage

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; flags and variables STREAM_LEIP_… beat it. "
        "Unless given: $STREAM_LEIP_CONFIG, or stream-leip.toml here. See 'config show'. "
        "Example: --config demo/stream-leip.toml",
    ),
]

LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        help=LogSettings.help("format") + " Default: human. Example: --log-format json",
        show_default=False,
        metavar="human|json",
    ),
]


def option(
    section: type[Section], name: str, example: str = "", complete: Callable[[], Any] | None = None
) -> Any:
    """The option of a setting; the default that it shows is the setting's."""
    default = section.model_fields[name].default
    parts = [section.help(name)]
    if choices := _choices(section.model_fields[name].annotation):
        parts.append(f"One of {', '.join(choices)}.")
    if default is not None and not isinstance(default, bool):
        parts.append(
            f"Default: {default:g}." if isinstance(default, float) else f"Default: {default}."
        )
    if example:
        parts.append(f"Example: {example}")
    return typer.Option(
        "--" + name.replace("_", "-"),
        help=" ".join(parts),
        show_default=False,  # the flag's own is None, and a text would stand in brackets
        autocompletion=complete,
        metavar="" if isinstance(default, bool) else None,
    )


def _choices(kind: Any) -> tuple[str, ...]:
    """What a setting may be, where that is one of a few words."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    parts = [each for each in get_args(kind) if each is not type(None)]
    return _choices(parts[0]) if len(parts) == 1 else ()


def _windows() -> list[tuple[str, str]]:
    return [
        ("adaptive", "as far back as still tells about the present"),
        ("tumbling 1000", "one after the other, by events"),
        ("tumbling 60s", "by event time"),
        ("sliding 2000 every 500", "overlapping"),
        ("fading 5000", "older events with less weight"),
    ]


# What monitors are made with, beside a profile.
MONITOR: dict[str, Any] = {
    "window": Annotated[
        str | None, option(MonitorSettings, "window", "--window 'sliding 10m every 1m'", _windows)
    ],
    "estimator": Annotated[
        str | None,
        option(MonitorSettings, "estimator", "--estimator EM", lambda: ["auto", "LEIP", "EM"]),
    ],
    "level": Annotated[float | None, option(MonitorSettings, "level", "--level 0.99")],
    "alarm": Annotated[str | None, option(MonitorSettings, "alarm", "--alarm 0.01")],
    "max_rows": Annotated[int | None, option(MonitorSettings, "max_rows", "--max-rows 100000")],
    "top_k": Annotated[int | None, option(MonitorSettings, "top_k", "--top-k 20")],
    "max_keys": Annotated[int | None, option(MonitorSettings, "max_keys", "--max-keys 10000")],
}


def check_apart(paths: Mapping[str, Path | None]) -> None:
    """Refuse one file for two uses: what is written would be lost, or destroy what is read."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None or (path.exists() and not path.is_file()):
            continue  # /dev/null may serve for all
        place = path.resolve()
        if place in seen:
            raise WrongUsage(f"{name}: {path} is {seen[place]} already; choose another file")
        seen[place] = name


def settings_of(section: type[Section], flags: dict[str, Any]) -> dict[str, Any]:
    """The flags of a verb that are settings of a section."""
    return {name: flags[name] for name in section.model_fields if name in flags}


def takes(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb more options; it gets those of the command line as one dict, `flags`.

    Parameters
    ----------
    options
        The annotated type of each, by the name of its setting; every default is None.
    """

    def wrap(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def called(**given: Any) -> None:
            verb(flags={name: given.pop(name) for name in options}, **given)

        signature = inspect.signature(verb)
        own = [each for name, each in signature.parameters.items() if name != "flags"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in options.items()
        ]
        # Typer reads both.
        parameters = [*added, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)]
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return wrap
