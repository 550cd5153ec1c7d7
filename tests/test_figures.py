"""Figures that a page fills anew, in colours that everybody can tell apart."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

# What people without one kind of cone see, on linear RGB (Machado, Oliveira and Fernandes, 2009).
SEEN = {
    "all": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip


def linear(colour: str) -> Any:
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    xyz = TO_XYZ @ np.clip(rgb, 0, 1) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eyes", SEEN)
def test_colours_can_be_told_apart(eyes: str) -> None:
    from stream_leip_connectors.figures.drawing import COLOURS

    seen = [lab(np.array(SEEN[eyes]) @ linear(colour)) for colour in COLOURS]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 24


def test_colours_stand_out_from_light_and_dark() -> None:
    from stream_leip_connectors.figures.drawing import COLOURS

    for colour in COLOURS:
        for back in ("#ffffff", "#14171c"):
            bright = sorted(float(TO_XYZ[1] @ linear(each)) + 0.05 for each in (colour, back))
            assert bright[1] / bright[0] >= 3.0, (colour, back)


def test_a_figure_is_filled_anew() -> None:
    from bokeh.models import Range1d
    from stream_leip_connectors.figures.drawing import Axes, Line, Marks, plot_of

    x = np.arange(3.0)
    none = np.empty(0)
    lines = [Line("a", x, x, "#0092ff", low=x, high=x), Line("a, true", x, x, "#0092ff", label="a")]
    axes = Axes(Range1d(start=0.0, end=1.0), False, "share")
    plot = plot_of(axes, lines, [Marks("alarm", [], "#d93a3a")])
    assert [(item.label.value, item.visible) for item in plot.items] == [  # type: ignore[union-attr]
        ("a", True),
        ("alarm", False),
    ]
    others = [
        Line("$$b$$", x[:2], x[:2] + 1, "#0092ff", low=x[:2], high=x[:2]),
        Line("b, true", none, none, "#0092ff", label="$$b$$"),
    ]
    plot.fill(others, [Marks("alarm", [1.0], "#d93a3a")])
    assert [item.visible for item in plot.items] == [True, True]
    assert plot.items[0].label.value == "$\u200b$\u200bb$\u200b$\u200b"  # type: ignore[union-attr]
    glyph, _ = plot.drawn[0]
    assert glyph.name == "$$b$$"
    np.testing.assert_array_equal(glyph.data_source.data["y"], [1.0, 2.0])
    plot.fill([line._replace(x=none, y=none, low=none, high=none) for line in others],
              [Marks("alarm", range(501), "#d93a3a")])  # fmt: skip
    assert [item.visible for item in plot.items] == [False, False]
    with pytest.raises(ValueError, match="zip"):
        plot.fill(others[:1], [])
