"""Finding settings: flags beat the environment, which beats a file, which beats the defaults."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from stream_leip_connectors.config import SECTIONS, Section, WrongUsage

DEFAULT_FILE = Path("stream-leip.toml")
FILE_VARIABLE = "STREAM_LEIP_CONFIG"
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
    >>> from stream_leip_connectors.config import MonitorSettings
    >>> from stream_leip_connectors.loading import load
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
    except SettingsError as error:  # it names the setting, and not the variable
        name = next((each for each in section.model_fields if f'"{each}"' in str(error)), "")
        raise WrongUsage(
            f"{section.variable(name)}: it is no JSON; write an object, as in "
            """'{"v7": "v7.json", "v8": "v8.json"}'"""
        ) from error
    origins |= dict.fromkeys(held, str(path))
    origins |= {name: section.variable(name) for name in environment}
    origins |= {name: "--" + name.replace("_", "-") for name in given}
    if failed is not None:
        raise WrongUsage(_explain(failed, section, origins))
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


def _explain(error: ValidationError, section: type[Section], origins: dict[str, str]) -> str:
    first = error.errors()[0]
    says = str(first["msg"]).removeprefix("Value error, ")
    if not first["loc"]:  # of settings together: their values, passwords among them, stay unsaid
        return says
    name = str(first["loc"][0])
    origin = origins.get(name, "")
    if says.startswith(f"{name}: "):
        return f"{says} (from {origin})"
    if section.is_secret(name):
        return f"{name}: {says} (from {origin})"
    return f"{name}: {first['input']!r}: {says} (from {origin})"
