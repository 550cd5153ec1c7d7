"""The code of docs/spark.md runs, and prints what it shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.test_readme import blocks, run_python

pytestmark = [
    pytest.mark.needs_spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # py4j's
]

PAGE = Path(__file__).parents[2] / "docs/spark.md"


def test_the_page_runs(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "docs"}
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        printed = run_python(block, names, tmp_path)
        if block.output is not None:
            assert printed.rstrip() == block.output.rstrip(), f"line {block.line}"
