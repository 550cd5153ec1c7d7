"""Where the command prints: stdout is data, stderr is people."""

from rich.console import Console

out = Console(highlight=False, emoji=False)
people = Console(stderr=True, highlight=False, emoji=False)
