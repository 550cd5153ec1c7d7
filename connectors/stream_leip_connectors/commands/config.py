"""stream-leip config show."""

import typer

from stream_leip_connectors import config, loading
from stream_leip_connectors.commands.options import ConfigFile
from stream_leip_connectors.console import out, say

app = typer.Typer(no_args_is_help=True, help="Settings: where they are from.")


@app.command()
def show(file: ConfigFile = None) -> None:
    """Print every setting, its value, and whether a variable, the file or the default gave it.

    Example: STREAM_LEIP_WINDOW="tumbling 500" stream-leip config show
    """
    lines = [("setting", "value", "from", "variable")]
    for section in config.SECTIONS:
        loaded = loading.load(section, {}, file)
        prefix = f"{section.table}." if section.table else ""
        for name, origin in loaded.origins.items():
            value = getattr(loaded.values, name)
            shown = "-" if value is None else str(value)
            lines.append((f"{prefix}{name}", shown, origin, section.variable(name)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    out.print(text, markup=False, soft_wrap=True)
    for name in loading.unknown_variables():
        say(f"{name} is set, but is no setting")
