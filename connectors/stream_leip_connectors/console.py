"""Where the command prints: stdout is data, stderr is people."""

from rich.console import Console

out = Console(highlight=False, emoji=False)
people = Console(stderr=True, highlight=False, emoji=False)


def say(text: str) -> None:
    """Tell people something; names in it are data, and lines are as long as they are."""
    people.print(text, markup=False, soft_wrap=True)
