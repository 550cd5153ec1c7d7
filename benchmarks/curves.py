"""Curves of a long run, one below the other, as an SVG file."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

WIDTH, HEIGHT = 720, 200


class Curve(NamedTuple):
    """What is drawn, and its values."""

    title: str
    values: Sequence[float]


def draw(path: Path, seconds: Sequence[float], curves: Sequence[Curve]) -> None:
    """Write each curve over the same time axis, from zero to its own highest value."""
    parts = [_line(seconds, curve, HEIGHT * number) for number, curve in enumerate(curves)]
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(curves)}" '
        'font-family="sans-serif" font-size="13" fill="#888">' + "".join(parts) + "</svg>\n",
        encoding="utf-8",
    )


def _line(seconds: Sequence[float], curve: Curve, top: int) -> str:
    highest = max(*curve.values, 1.0)
    points = " ".join(
        f"{60 + (WIDTH - 80) * at / seconds[-1]:.1f},"
        f"{top + HEIGHT - 30 - (HEIGHT - 60) * value / highest:.1f}"
        for at, value in zip(seconds, curve.values, strict=True)
    )
    bottom = top + HEIGHT - 30
    return (
        f'<text x="60" y="{top + 20}">{curve.title}; highest {highest:,.0f}</text>'
        f'<path d="M60 {bottom}H{WIDTH - 20}" stroke="#888"/>'
        f'<text x="50" y="{bottom}" text-anchor="end">0</text>'
        f'<text x="{WIDTH - 20}" y="{bottom + 18}" text-anchor="end">'
        f"{seconds[-1] / 60:.0f} min</text>"
        f'<polyline points="{points}" fill="none" stroke="#3b6ea5" stroke-width="1.5"/>'
    )
