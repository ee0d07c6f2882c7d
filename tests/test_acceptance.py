"""The matrix of what solvers take: every cell is what the file says, and what is taken is solved as Clarabel does."""

from __future__ import annotations

from functools import cache

import pytest

import acceptance
from acceptance import BIAS, BY_LABEL, BY_NAME, SOLVERS, cells, kept, places, refusal, spread
from agreement import check_against
from kernelweave import solve, solvers
from kernelweave.arrays import to_host
from kernelweave.solvers.base import TINY
from reference import solve_by_clarabel
from registry import PAIRED, PENALTIES, exported, label, sized

FEW, MANY = 30, 120  # samples: below TINY, where solvers go to the end of floating point, and above it
GAPS = {"mwu": 1e-2, "mirror": 5e-2}  # relative, of solvers that are meant for no better
ON_KERNELS = {label(penalty) for penalty in PENALTIES}
assert FEW < TINY < MANY


def on_kernels(solver):
    """Return the cells a solver takes whose penalty weighs kernels; products of kernels have tests of their own."""
    return [cell for cell in kept()[solver] if cell.penalty in ON_KERNELS]


SMALL = [cell for solver in SOLVERS for cell in spread(on_kernels(solver))]
SMALL += [cell for cell in spread(on_kernels("auto"), always=[("loss", "penalty")]) if cell not in SMALL]
TAME = [label(penalty) for penalty in PENALTIES if label(penalty) != "Lp-p=1.05"]  # on which Clarabel fails at times
LARGE = [c for s in SOLVERS for c in spread([c for c in on_kernels(s) if c.penalty in TAME], always=("loss",))]


@cache
def best(loss, bias, penalty, n):
    """Return Clarabel's optimum of a cell's problem, whatever its kernels are held as."""
    case, bound = BY_NAME[loss], acceptance.bound_of(loss, n)
    dual_sum = case.dual_sums[0] if bias == BIAS else None
    stack = acceptance.stack_of(n)[1]
    chosen = sized(BY_LABEL[penalty], acceptance.M)
    return solve_by_clarabel(stack, to_host(bound.y), bound.C, chosen, case.loss, dual_sum, fair=1e-5)


def check(cell, n):
    problem, tol = acceptance.problem_of(*cell[1:], n), GAPS.get(cell.solver, 1e-4)
    found = solve(problem, cell.solver, tol=tol)
    assert found.solver == cell.solver or cell.solver == "auto"
    check_against(problem, found, best(*cell[2:], n), tol)


# -- the file --


def test_every_solver_is_registered_under_its_name():
    known = {solver.__name__ for solver in solvers._NAMES.values()}
    assert exported(solvers) | exported(solvers.literature) == known
    assert all(name == solver.name for name, solver in solvers._NAMES.items())


def test_the_file_knows_every_penalty_and_nothing_else():
    assert acceptance.columns() == [label(penalty) for penalty in PENALTIES + PAIRED]
    assert set(kept()) == set(SOLVERS)
    somewhere = {cell[1:4] for solver in SOLVERS for cell in kept()[solver]}
    assert {place for place in places() if place[0] != acceptance.SLOW} <= somewhere <= set(places())


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_cell_is_what_the_file_says(solver):
    """Where this fails and is meant to, run make_acceptance.py, and read what has changed."""
    said = {cell: refusal(cell) for cell in cells(solver)}
    now, then = {cell for cell, words in said.items() if words is None}, set(kept()[solver])
    assert now == then, f"now refused: {sorted(then - now)[:5]}, now taken: {sorted(now - then)[:5]}"
    assert then, "a solver that takes nothing"
    for words in filter(None, said.values()):
        assert solver == "auto" or words.startswith(f"solver {solver!r} ")
        assert words.endswith(".")


@pytest.mark.parametrize("gram", ["dense", "on demand", "factors"])
def test_the_choice_of_solver_takes_every_penalty_on_kernels(gram):
    """So a user who names no solver is never refused."""
    wanted = {(*place, penalty) for place in places() if place[0] == gram for penalty in ON_KERNELS}
    assert wanted <= {cell[1:] for cell in kept()["auto"]}


# -- what is taken is solved --


def test_the_spread_leaves_nothing_out():
    for solver in SOLVERS:
        for what in ("loss", "penalty", "gram", "bias"):
            everything = {getattr(cell, what) for cell in on_kernels(solver)}
            assert {getattr(cell, what) for cell in SMALL if cell.solver == solver} == everything
        assert {cell.loss for cell in LARGE if cell.solver == solver} == {cell.loss for cell in on_kernels(solver)}


@pytest.mark.parametrize("cell", SMALL, ids=str)
def test_certified_and_equal_to_the_reference(cell):
    check(cell, FEW)


@pytest.mark.parametrize("cell", LARGE, ids=str)
def test_certified_and_equal_to_the_reference_above_tiny(cell):
    check(cell, MANY)
