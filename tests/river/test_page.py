"""The walk-through of docs/river.md runs, and prints what it shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.test_readme import Block, blocks, run_python

PAGE = Path(__file__).parents[2] / "docs" / "river.md"


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    return {"__name__": "river"}


# Blocks build on each other, so they run in the order of the page.
@pytest.mark.parametrize(
    "block",
    [pytest.param(b, id=f"line-{b.line}") for b in blocks(PAGE.read_text(encoding="utf-8"))],
)
def test_block_runs_and_prints_what_it_shows(
    block: Block, namespace: dict[str, Any], tmp_path: Path
) -> None:
    printed = run_python(block, namespace, tmp_path)
    if block.output is not None:
        assert printed.rstrip() == block.output.rstrip()
