"""Values known beforehand: by Clarabel when this was written, by Clarabel now, and by every solver."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acceptance import takers
from kernelweave import DenseGram, Problem, losses, penalties, solve
from reference import solve_by_clarabel
from registry import CASES, PENALTIES, SOLVERS, label, names, sized

X = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 2.5, -1.5])
Y = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
GAPS = X[:, None] - X
STACK = np.stack([np.outer(X, X), np.exp(-(GAPS**2)), np.exp(-0.1 * GAPS**2)], axis=2)
HINGE, SQUARED = losses.Hinge(), losses.SquaredHinge()
KNOWN = [
    (penalties.L1(), HINGE, 3.941222, (0.0358, 0.9642, 0)),
    (penalties.Lp(4 / 3), HINGE, 3.831139, (0.1026, 0.9638, 0.0000)),
    (penalties.Lp(2), HINGE, 3.723599, (0.2119, 0.9771, 0.0179)),
    (penalties.Fixed(), HINGE, 5.207822, (1 / 3, 1 / 3, 1 / 3)),
    (penalties.MoreauYosida(a=0.5, d=1.0), HINGE, 4.418493, (0.0910, 0.7393, 0)),
    (penalties.ElasticNet(c1=0.2, c2=0.5), HINGE, 2.749628, (0.9349, 1.7134, 0)),
    (penalties.L1(), SQUARED, 1.961469, (0.0857, 0.9143, 0)),
]
each_known = pytest.mark.parametrize(
    ("penalty", "loss", "value", "weights"), KNOWN, ids=[f"{label(known[0])}-{label(known[1])}" for known in KNOWN]
)


def alike(penalty):
    """Return the name by which acceptance.csv knows penalties of this class."""
    return label(next(known for known in PENALTIES if type(known) is type(penalty)))


@each_known
def test_clarabel_finds_the_known_values(penalty, loss, value, weights):
    found = solve_by_clarabel(STACK, Y, 1.0, penalty, loss)
    assert found.value == pytest.approx(value, rel=1e-6)
    assert_allclose(found.weights, weights, atol=2e-4)


SOLVED = [
    (solver, *known)
    for known in KNOWN
    for solver in takers(["auto", *SOLVERS], loss=label(known[1]), penalty=alike(known[0]))
]
IDS = [f"{solver}-{label(penalty)}-{label(loss)}" for solver, penalty, loss, *_ in SOLVED]


@pytest.mark.parametrize(("solver", "penalty", "loss", "value", "weights"), SOLVED, ids=IDS)
def test_solvers_find_the_known_values(solver, penalty, loss, value, weights):
    problem = Problem(DenseGram(STACK), loss.bind(Y), penalty)
    found = solve(problem, solver, tol=1e-6)
    assert found.certificate.lower == pytest.approx(value, rel=1e-5)
    assert found.certificate.upper == pytest.approx(value, rel=1e-5)
    assert_allclose(found.weights, weights, atol=1e-3)


def test_energies_of_the_known_lp_optimum():
    problem = Problem(DenseGram(STACK), HINGE.bind(Y, 1.0), penalties.Lp(2))
    found = solve(problem, tol=1e-9)
    assert_allclose(problem.gram.energies(found.beta), [0.96484, 4.44865, 0.08132], rtol=1e-3)


@pytest.mark.parametrize("solver", takers(["auto", *SOLVERS], penalty=alike(penalties.Lp(2))))
def test_smooth_and_sharp_extremes_have_known_limits(solver):
    """With p near 1 the optimum is that of l1 up to a factor; with p = inf it is that of the sum."""
    least = solve_by_clarabel(STACK, Y, 1.0, penalties.L1(), HINGE).value
    most = solve_by_clarabel(STACK, Y, 1.0, penalties.Fixed(np.ones(3)), HINGE).value
    for p, low, high in [(1.001, least * (1 - 2e-3), least), (1e4, most, most * (1 + 1e-3))]:
        problem = Problem(DenseGram(STACK), HINGE.bind(Y, 1.0), penalties.Lp(p))
        found = solve(problem, solver, tol=1e-5)
        assert found.converged
        assert low * (1 - 1e-5) <= found.certificate.upper <= high * (1 + 1e-5)


def test_clarabel_knows_every_registered_penalty_and_loss():
    """So that no new one escapes comparison; decision values are consistent with the objective."""
    for number, case in enumerate(CASES):
        for penalty in PENALTIES if number == 0 else PENALTIES[number % 3 :: 3]:
            bound = case.bind(np.random.default_rng(0), 8, score=X)
            for dual_sum in case.dual_sums:
                found = solve_by_clarabel(STACK, bound.y, bound.C, sized(penalty, 3), case.loss, dual_sum)
                assert np.all(np.isfinite(found.decision))
                if not dual_sum:
                    assert -1e-9 < float(np.sum(bound.value(found.decision))) < found.value
    assert len(names(PENALTIES)) >= 6


def test_clarabel_with_a_cost_for_each_sample():
    cost = np.array([2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    index = np.r_[0, np.arange(8)]
    once = solve_by_clarabel(STACK, Y, cost, penalties.Lp(2), HINGE)
    twice = solve_by_clarabel(STACK[np.ix_(index, index)], Y[index], 1.0, penalties.Lp(2), HINGE)
    assert once.value == pytest.approx(twice.value, rel=1e-7)
