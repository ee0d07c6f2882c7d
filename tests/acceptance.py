"""Which solver takes what, as data: the cells of the matrix, the problems they stand for, and the file that keeps them.

A cell is a solver, a representation of the kernels, a loss with the shape of its targets, whether there is a bias, and
a penalty. ``acceptance.csv`` has a line for every solver, representation, loss and bias for which any penalty is taken,
and a column for every penalty; ``make_acceptance.py`` writes it, by hand, when what solvers take has changed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import array_api_strict
import numpy as np

from kernelweave import Problem, grams, solvers
from kernelweave.grams.basis import Part
from kernelweave.solvers.base import check_pair
from registry import CASES, ON_BANKS, PAIRED, PENALTIES, factored, label, on_demand, sized

FILE = Path(__file__).with_name("acceptance.csv")
M = 5  # kernels of the problems
BIAS, NO_BIAS = "bias", "no bias"
SLOW, EASY = "factors elsewhere", 1  # a library that checks every call, and how many of its cells to choose from
WALK = ("mirror", "on demand")  # where every single step computes its kernels


class Cell(NamedTuple):
    """One place of the matrix, by names."""

    solver: str
    gram: str
    loss: str
    bias: str
    penalty: str

    def __str__(self) -> str:
        return "-".join(self).replace(" ", "_")


def elsewhere(stack, scale):
    """Return a stack held as factors in an array library other than NumPy."""
    here = factored(stack, scale)
    return grams.LowRankGram(array_api_strict.asarray(here.features), here.ranks)


def based(stack, scale):
    """Return a stack held in one basis, that of the eigenvectors of all kernels."""
    here = factored(stack, scale)
    U, sizes, _ = np.linalg.svd(here.features, full_matrices=False)
    Q = np.ascontiguousarray(U[:, sizes > 1e-10 * sizes[0]])
    roots = tuple(Q.T @ here.features[:, s : s + r] for s, r in here.segments())
    return grams.BasisGram(grams.LowRankGram(Q, [Q.shape[1]]), [Part(np.arange(len(roots)), roots)])


GRAMS = {
    "dense": grams.DenseGram,
    "on demand": on_demand,
    "factors": factored,
    SLOW: elsewhere,
    "basis": based,
}
SOLVERS = ["auto", *sorted(set(solvers._NAMES) - set(ON_BANKS))]
BY_LABEL = {label(penalty): penalty for penalty in PENALTIES + PAIRED}
BY_NAME = {str(case): case for case in CASES}


def places() -> list[tuple[str, str, str]]:
    """Return representations, losses and biases that go together, which any solver might be asked for."""
    biases = {str(case): [BIAS if s is not None else NO_BIAS for s in case.dual_sums] for case in CASES}
    return [(gram, loss, bias) for gram in GRAMS for loss in BY_NAME for bias in biases[loss]]


# -- problems --


def widths(X, m=M):
    """Return ``m`` kernels on the rows of X: a Gaussian, a linear, a quadratic, and Gaussians from wide to narrow."""
    dots, far = X @ X.T, ((X[:, None] - X) ** 2).sum(axis=2)
    gaussians = [np.exp(-gamma * far) for gamma in np.geomspace(0.03, 10.0, 6)]
    return np.stack([gaussians[3], dots, (1.0 + dots) ** 2, *gaussians[:3], *gaussians[4:]][:m], axis=2)


def narrow(X, m=M, rank=5):
    """Return ``m`` Gaussian kernels of low rank, from wide to narrow."""
    rng, kernels = np.random.default_rng(0), []
    for gamma in np.geomspace(0.03, 3.0, m):
        marks = X[rng.choice(len(X), rank, replace=False)]
        near, own = (np.exp(-gamma * ((A[:, None] - marks) ** 2).sum(axis=2)) for A in (X, marks))
        values, vectors = np.linalg.eigh(own)
        V = near @ (vectors / np.sqrt(np.maximum(values, 1e-3)))
        kernels.append(V @ V.T)
    return np.stack(kernels, axis=2)


@cache
def stack_of(n):
    """Return points and the kernels on them: of full rank for few samples, of low rank for many."""
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, widths(X) if n <= 50 else narrow(X)


@cache
def gram_of(name, n):
    """Return the kernels on ``n`` samples in a representation."""
    return GRAMS[name](stack_of(n)[1], None)


@cache
def bound_of(name, n, C=2.0):
    """Return a loss bound to targets that follow the points, with noise."""
    X, _ = stack_of(n)
    return BY_NAME[name].bind(np.random.default_rng(1), n, C, X[:, 0] * X[:, 1] + 0.5 * X[:, 2])


@cache
def problem_of(gram, loss, bias, penalty, n) -> Problem:
    """Return the problem with ``n`` samples that a cell stands for."""
    chosen, stack = sized(BY_LABEL[penalty], M), gram_of(gram, n)
    if chosen.products:
        stack = grams.products_for(stack, chosen)
    dual_sum = None if bias == NO_BIAS else BY_NAME[loss].dual_sums[0]
    return Problem(stack, bound_of(loss, n), chosen, dual_sum)


# -- the matrix --


def refusal(cell: Cell, n=12) -> str | None:
    """Return what is said when a cell is refused, or None where it is taken."""
    try:
        problem = problem_of(*cell[1:], n)
    except (TypeError, ValueError) as why:  # no such products
        return f"solver {cell.solver!r} {why}"
    try:
        check_pair(problem, solvers.make_solver(cell.solver, problem))
    except ValueError as why:
        return str(why)
    return None


def cells(solver: str) -> Iterator[Cell]:
    """Yield all cells of a solver."""
    for gram, loss, bias in places():
        for penalty in BY_LABEL:
            yield Cell(solver, gram, loss, bias, penalty)


@cache
def kept() -> dict[str, list[Cell]]:
    """Return the cells that are taken according to the file, by solver."""
    found: dict[str, list[Cell]] = {solver: [] for solver in SOLVERS}
    with FILE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            names = (row["solver"], row["gram"], row["loss"], row["bias"])
            taken = (penalty for penalty in BY_LABEL if row.get(penalty) == "x")
            found.setdefault(row["solver"], []).extend(Cell(*names, penalty) for penalty in taken)
    return found


def columns() -> list[str]:
    """Return the penalties that the file knows."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file))[4:]


def takers(solvers, gram="dense", loss="Hinge", bias=BIAS, penalty=None) -> list[str]:
    """Return those of some solvers which take a problem, any penalty's if none is named, according to the file."""
    want = (gram, loss, bias)
    return [s for s in solvers if any(c[1:4] == want and penalty in (None, c.penalty) for c in kept()[s])]


def pairs(solvers, penalties, **place) -> list[tuple]:
    """Return the solvers and penalties that go together, for tests of both."""
    return [(s, p) for p in penalties for s in takers(solvers, penalty=label(p), **place)]


def spread(cells: Iterable[Cell], always=("penalty", "loss", "gram", "bias")) -> list[Cell]:
    """Return some cells of one solver: of every penalty, loss, representation and bias one at least, and few twice.

    Libraries that check every call are slow, and so are steps that compute kernels: of those one easy cell is enough.
    """
    cells, chosen, seen = list(cells), [], set()
    for what in always:
        for value, able in grouped(cells, what).items():
            if (what, value) in seen:
                continue
            quick = [cell for cell in able if cell.gram != SLOW and (cell.solver, cell.gram) != WALK]
            best = max(quick or able[:EASY], key=lambda cell: sum(fact not in seen for fact in facts(cell)))
            chosen.append(best)
            seen.update(facts(best))
    return chosen


def grouped(cells: list[Cell], what) -> dict:
    """Return the cells by one or several of their names."""
    found: dict = {}
    for cell in cells:
        value = getattr(cell, what) if isinstance(what, str) else tuple(getattr(cell, name) for name in what)
        found.setdefault(value, []).append(cell)
    return found


def facts(cell: Cell) -> list[tuple]:
    """Return what solving a cell would show: that single values go, and that two of them go together."""
    values = list(cell._asdict().items())[1:]
    pairs = [(one, other) for one in values for other in values if one < other]
    return values + pairs + [((a[0], b[0]), (a[1], b[1])) for a, b in pairs]
