"""Kernels give the same bits in every process."""

import ast
from pathlib import Path
from typing import NamedTuple

import stream_leip_connectors

import stream_leip

PACKAGES = (stream_leip, stream_leip_connectors)


class Kernel(NamedTuple):
    settings: str
    calls: set[str]


def kernels() -> dict[str, Kernel]:
    """Each kernel as module.name, with its decorator and the kernels it calls."""
    found = {}
    folders = [Path(package.__file__ or "").parent / "_kernels" for package in PACKAGES]
    for path in (path for folder in folders for path in folder.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name: path.stem for node in tree.body if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and "_kernels" in (node.module or ""):
                module = (node.module or "").rpartition(".")[2]
                names |= {alias.asname or alias.name: module for alias in node.names}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                called = [ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)]
                calls = {f"{names[call]}.{call}" for call in called if call in names}
                # A module under another name: `from _kernels import labels as ranking`.
                calls |= {
                    f"{alias.name}.{call.partition('.')[2]}"
                    for top in tree.body
                    if isinstance(top, ast.ImportFrom) and (top.module or "").endswith("._kernels")
                    for alias in top.names
                    for call in called
                    if call.startswith(f"{alias.asname or alias.name}.")
                }
                found[f"{path.stem}.{node.name}"] = Kernel(
                    " ".join(map(ast.unparse, node.decorator_list)), calls
                )
    return {name: kernel for name, kernel in found.items() if "njit" in kernel.settings}


def test_sums_that_may_be_reordered_have_one_compiled_copy() -> None:
    known = kernels()

    def reorders(name: str) -> bool:
        kernel = known[name]
        return "fastmath=FAST" in kernel.settings or any(map(reorders, kernel.calls & known.keys()))

    called = set().union(*(kernel.calls for kernel in known.values())) & known.keys()
    assert len(known) > 50
    assert {"likelihood.gradient", "labels.relabel", "labels.split", "batches._varint"} <= called
    assert [
        name for name in sorted(called) if reorders(name) and "inline" not in known[name].settings
    ] == []


def test_every_kernel_says_whether_its_sums_may_be_reordered() -> None:
    # Else it would do as the kernel does that happens to be the first to call it.
    silent = [name for name, each in kernels().items() if "fastmath=" not in each.settings]
    assert silent == []
