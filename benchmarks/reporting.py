"""What a benchmark prints: tables, requirements beside figures, and the machine they are from."""

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

Step = Callable[[str], None]
_MARKER = "<!-- written by "


@dataclass(frozen=True)
class Section:
    """A table of the report."""

    title: str
    columns: tuple[str, ...]
    lines: list[tuple[str, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """Tables, then every requirement with its figure."""

    sections: list[Section] = field(default_factory=list)
    requirements: Section = field(
        default_factory=lambda: Section("Requirements", ("required", "measured", "met"))
    )

    def section(self, title: str, *columns: str) -> Section:
        """A new table, after those before it."""
        self.sections.append(Section(title, columns))
        return self.sections[-1]

    def require(self, asked: str, figure: str, met: bool) -> None:
        """Set a figure beside its requirement."""
        self.requirements.lines.append((asked, figure, "met" if met else "NOT met"))

    def show(self, machine: str) -> None:
        """Print all tables."""
        console = Console()
        console.print(machine)
        for section in (*self.sections, self.requirements):
            table = Table(*section.columns, title=section.title, title_justify="left")
            for line in section.lines:
                table.add_row(*line)
            console.print(table)

    def write(self, path: Path, script: str, title: str, machine: str) -> None:
        """Put the tables below the script's marker, as far as the next marker; other text stays."""
        marker = f"{_MARKER}{script}: -->\n"
        held = path.read_text() if path.exists() else ""
        above, _, old = held.partition(marker)
        below = old[old.find(_MARKER) :] if _MARKER in old else ""
        parts = [f"## {title}", machine]
        for section in (*self.sections, self.requirements):
            table = [section.columns, ("---",) * len(section.columns), *section.lines]
            lines = ["| " + " | ".join(cells) + " |" for cells in table]
            parts.append(f"### {section.title}\n\n" + "\n".join(lines))
        text = above + marker + "\n" + "\n\n".join(parts) + "\n"
        path.write_text(text + (f"\n{below}" if below else ""))


def context(packages: Sequence[str]) -> str:
    """Cores, processor and versions; read before the run, while the load is that of others."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    cpu = next(models, platform.machine())
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    load = f"load {os.getloadavg()[0]:.1f} before the run"
    python = platform.python_version()
    return f"One core of {os.cpu_count()} ({cpu}), {load}, Python {python}, {versions}."


@contextmanager
def steps(total: int) -> Iterator[Step]:
    """A bar on stderr; it draws between steps only, as a thread would share the timed core."""
    with Progress(console=Console(stderr=True), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=total)

        def step(what: str) -> None:
            progress.update(task, description=what, advance=1, refresh=True)

        yield step
