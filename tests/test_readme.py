import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

README = Path(__file__).parents[1] / "README.md"
# A block to run, and the text block right after it, if there is one, as its expected output.
BLOCK = re.compile(
    r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```$(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    line: int
    kind: str
    code: str
    output: str | None


def blocks(text: str) -> Iterator[Block]:
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        yield Block(line, match["kind"], match["code"], match["output"])


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    return {"__name__": "readme"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One working folder for all blocks: a later block may read what an earlier one wrote."""
    return tmp_path_factory.mktemp("readme")


# Blocks share a namespace and build on each other, so they run in the order of the file.
@pytest.mark.parametrize(
    "block",
    [pytest.param(b, id=f"line-{b.line}") for b in blocks(README.read_text(encoding="utf-8"))],
)
def test_block_runs_and_prints_what_it_shows(
    block: Block, namespace: dict[str, Any], folder: Path
) -> None:
    printed = (
        run_shell(block, folder) if block.kind == "sh" else run_python(block, namespace, folder)
    )
    if block.output is not None:
        assert printed.rstrip() == block.output.rstrip()


def run_python(block: Block, namespace: dict[str, Any], folder: Path) -> str:
    # Leading newlines make a traceback point at the line of README.md.
    code = compile("\n" * (block.line - 1) + block.code, str(README), "exec")
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run_shell(block: Block, folder: Path) -> str:
    """Run a block as typed, with the installed command; any command that fails is an error."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_blocks_are_found_with_their_output() -> None:
    text = "# T\n```python\nprint(1)\n```\n\n```text\n1\n```\n\nwords\n\n```sh\nls\n```\n"
    assert list(blocks(text)) == [
        Block(3, "python", "print(1)\n", "1\n"),
        Block(12 + 1, "sh", "ls\n", None),
    ]
