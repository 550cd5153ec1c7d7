"""The tables of the paper with our own networks, each figure beside the paper's.

python -m benchmarks.paper_tables --data mnist
python -m benchmarks.paper_tables --data cifar10 --markdown
"""

import csv
from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import Progress, TimeElapsedColumn

from benchmarks.datasets import FOLDER, Data, Scored, load
from stream_leip import EM, LEIP, RLLS, ClassifyAndCount, Estimator, fit_profile
from stream_leip.arrays import Labels, Vector
from stream_leip.calibration import METHODS
from stream_leip.profile import SourcePrior

TITLES = {"soft": "Main table, soft source prior", "hard": "Appendix, hard source prior"}
# A standard error beside each of these; the others are there for scale.
WITH_ERROR = ("EM", "LEIP")


class Cell(NamedTuple):
    """Where a figure stands in the paper."""

    prior: str
    method: str
    calibration: str
    alpha: float
    validation_rows: int


Paper = dict[Cell, float]
Errors = dict[Cell, Vector]


def paper_figures(data: Data) -> Paper:
    """The paper's figures in the order in which it prints them."""
    with (FOLDER / "paper_tables.csv").open(newline="") as lines:
        return {
            Cell(
                line["source_prior"],
                line["method"],
                line["calibration"],
                float(line["alpha"]),
                int(line["validation_rows"]),
            ): float(line["mse_times_1000"])
            for line in csv.DictReader(lines)
            if line["data"] == data
        }


def largest_subset(labels: Labels, prior: Vector, rng: np.random.Generator) -> Labels:
    """Places of the most rows, none twice, whose labels are distributed as `prior`."""
    pool = np.bincount(labels, minlength=len(prior))
    size = np.min(pool[prior > 0] / prior[prior > 0])
    wanted = np.minimum(np.floor(size * prior + 1e-9), pool).astype(np.int64)
    order = rng.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(pool) - pool, pool)
    return np.sort(by_class[rank < np.repeat(wanted, pool)])


def weight_errors(
    scored: Scored, cells: list[Cell], draws: int, seed: int, advance: Callable[[], None]
) -> Errors:
    """MSE of the weights times 1000 of each cell, for each draw.

    All sizes take the first rows of one order of the validation rows, and all cells of an α the
    same draws.
    """
    for_order, for_draws = np.random.default_rng(seed).spawn(2)
    order = for_order.permutation(len(scored.val_labels))
    m = scored.val_logits.shape[1]
    subsets = {
        alpha: [
            largest_subset(scored.test_labels, prior, for_draws)
            for prior in for_draws.dirichlet(np.full(m, alpha), draws)
        ]
        for alpha in dict.fromkeys(cell.alpha for cell in cells)
    }
    errors = {cell: np.empty(draws) for cell in cells}
    for rows in dict.fromkeys(cell.validation_rows for cell in cells):
        logits, labels = scored.val_logits[order[:rows]], scored.val_labels[order[:rows]]
        for calibration in METHODS:
            profile = fit_profile(logits, labels, calibration=calibration, seed=seed)
            pool = profile.rows(scored.test_logits)
            for alpha, drawn in subsets.items():
                row = [
                    (cell, _estimator(cell))
                    for cell in cells
                    if cell[2:] == (calibration, alpha, rows)
                ]
                for draw, subset in enumerate(drawn):
                    shares = np.bincount(scored.test_labels[subset], minlength=m) / len(subset)
                    truth = shares / profile.hard_prior
                    for cell, estimator in row:
                        found = estimator.estimate(pool[subset], profile).weights
                        errors[cell][draw] = 1000.0 * np.mean((found - truth) ** 2)
                    advance()
    return errors


def _estimator(cell: Cell) -> Estimator:
    prior: SourcePrior = "soft" if cell.prior == "soft" else "hard"
    by_name: dict[str, Estimator] = {
        "CC": ClassifyAndCount(),
        "RLLS": RLLS(soft=True),
        "RLLS-hard": RLLS(soft=False),
        "EM": EM(prior=prior),
        "LEIP": LEIP(prior=prior),
    }
    return by_name[cell.method]


def figures(errors: Errors, paper: Paper, prior: str, *, with_error: bool) -> str:
    """One table in the paper's layout; a cell is ours (the paper's), the best of each in bold.

    Ours of EM and LEIP may have their standard error beside them.
    """
    columns = list(dict.fromkeys(cell[3:] for cell in paper))
    lines = list(dict.fromkeys(cell[1:3] for cell in paper))
    cells = [[Cell(prior, *line, *column) for column in columns] for line in lines]
    # As printed: what rounds to the best is the best too.
    ours = np.round([[errors[cell].mean() for cell in row] for row in cells], 2)
    theirs = np.array([[paper[cell] for cell in row] for row in cells])
    texts = [
        [
            f"{_bold(ours[i, j], ours[:, j])}{_noise(cell, errors) if with_error else ''} "
            f"({_bold(theirs[i, j], theirs[:, j])})"
            for j, cell in enumerate(row)
        ]
        for i, row in enumerate(cells)
    ]
    return _table(
        ["method", "calibration", *(f"α={alpha:g}, {rows}" for alpha, rows in columns)],
        [[*line, *row] for line, row in zip(lines, texts, strict=True)],
    )


def comparison(errors: Errors, paper: Paper) -> str:
    """In how many cells LEIP is at or below EM, for each prior and calibration.

    Both see the same draws, so a clear difference is two standard errors of the paired one.
    """
    fewest = min(cell.validation_rows for cell in paper)
    lines = []
    for prior in TITLES:
        for calibration in METHODS:
            pairs = [
                (cell, cell._replace(method="EM"))
                for cell in paper
                if cell[:3] == (prior, "LEIP", calibration)
            ]
            excess = np.stack([errors[leip] - errors[em] for leip, em in pairs])
            mean, noise = excess.mean(axis=1), 2.0 * _standard_error(excess)
            small = np.array([leip.validation_rows == fewest for leip, _ in pairs])
            theirs = np.array([paper[leip] <= paper[em] for leip, em in pairs])
            shown = [mean <= 0, mean < -noise, mean > noise, mean[small] <= 0, theirs]
            counts = [f"{np.count_nonzero(of)} of {len(of)}" for of in shown]
            lines.append([prior, calibration, *counts])
    headings = ["LEIP ≤ EM", "clearly below", "clearly above", f"≤ at {fewest} rows", "paper: ≤"]
    return _table(["source prior", "calibration", *headings], lines)


def _standard_error(errors: Vector) -> Vector:
    """Of the mean over the last axis."""
    found: Vector = errors.std(axis=-1, ddof=1) / np.sqrt(errors.shape[-1])
    return found


def _noise(cell: Cell, errors: Errors) -> str:
    return f" ± {_standard_error(errors[cell]):.2f}" if cell.method in WITH_ERROR else ""


def _bold(value: float, column: Vector) -> str:
    return f"**{value:.2f}**" if value == column.min() else f"{value:.2f}"


def _table(headings: list[str], lines: list[list[str]]) -> str:
    rule = ["---", "---", *["---:"] * (len(headings) - 2)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, rule, *lines])


def main(
    data: Annotated[Data, typer.Option(help="The data set.")],
    draws: Annotated[int, typer.Option(min=2, help="Shifts drawn for each α.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Of validation rows and draws.")] = 0,
    subsets: Annotated[
        int, typer.Option(min=1, help="Average over this many seeds, errors being over seeds.")
    ] = 1,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write markdown.")] = False,
) -> None:
    """Print the paper's tables: MSE of the weights × 1000, ours (the paper's)."""
    scored, paper = load(data), paper_figures(data)
    steps = subsets * draws * len({cell[2:] for cell in paper})
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{data}, {draws} draws", total=steps)
        runs = [
            weight_errors(scored, list(paper), draws, seed + k, lambda: progress.advance(task))
            for k in range(subsets)
        ]
    # One seed is one validation subset: over several, the subset is what varies, not the draw.
    errors = {cell: np.array([run[cell].mean() for run in runs]) for cell in paper}
    if subsets == 1:
        errors = runs[0]
    seeds = f"seed {seed}" if subsets == 1 else f"seeds {seed} to {seed + subsets - 1}"
    parts = [f"{data}: accuracy {scored.accuracy:.3f}, {draws} draws, {seeds}"]
    for prior, title in TITLES.items():
        parts += [f"### {title}", figures(errors, paper, prior, with_error=markdown)]
    parts += ["### LEIP against EM", comparison(errors, paper)]
    text = "\n\n".join(parts)
    console = Console()
    if markdown:
        console.out(text, highlight=False)
    else:
        # The table cannot fold below 120; a pipe has no width of its own.
        console.width = max(console.width, 120 if console.is_terminal else 160)
        console.print(Markdown(text))


if __name__ == "__main__":
    typer.run(main)
