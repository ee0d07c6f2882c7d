"""Published methods for the same problem find the same optimum, and each keeps the laws of its paper."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelweave as kw
from agreement import assert_same_optimum, decision
from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.problem import Point, Status
from kernelweave.solvers import literature
from kernelweave.solvers.literature import cuts, level, simplemkl, spg, svm
from registry import PRICES, label, on_demand
from test_reference import STACK, Y
from test_solvers import draw, small, widths

SPARSE = ["skm", "silp", "simplemkl", "level", "alternating", "qcqp", "spg"]  # alternation is glmkl at p = 1
DENSE = ["alternating", "spg", "smo"]
DRAWN = [(40, 5, 1.0, 1), (60, 8, 10.0, 2), (90, 6, 0.1, 3), (50, 8, 100.0, 4)]  # samples, kernels, C, seed
each_drawn = pytest.mark.parametrize(("n", "m", "C", "seed"), DRAWN, ids=[f"n={d[0]}-C={d[2]:g}" for d in DRAWN])
each_p = pytest.mark.parametrize("p", [1.1, 4 / 3, 2.0, 5.0])


def unit(problem):
    """Return the problem with kernels of mean diagonal one, as papers have them."""
    stack = problem.gram.stack
    return Problem(DenseGram(stack * stack.shape[0] / np.einsum("iik->k", stack)), *vars_of(problem))


def vars_of(problem):
    return problem.loss, problem.penalty


def march(problem, solver, tol, most=400):
    """Yield a solver's state after each step, until the gap is ``tol``."""
    state = solver.init(problem, None, tol)
    for _ in range(most):
        if solver.step(problem, state):
            certificate = certify(problem, solver.read(problem, state))
            yield state
            if certificate.gap <= tol or solver.adapt(problem, state, certificate) is not None:
                return
    raise AssertionError(f"{solver.name} made {most} steps and is at a gap of {certificate.gap:.1e}.")


def best_value(problem, weights):
    """Return what a machine at fixed weights is worth: J of the papers."""
    fixed = Problem(problem.gram, problem.loss, penalties.Fixed(weights))
    return solve(fixed, "sqp", tol=1e-9).certificate.lower


def single_columns(penalty, C, seed=0, loss=None):
    """Return a problem with a kernel of rank one for each column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6))
    y = np.sign(X[:, 0] + 0.7 * rng.normal(size=60))
    return Problem(DenseGram(np.einsum("ik,jk->ijk", X, X)), (loss or losses.Hinge()).bind(y, C), penalty)


# -- one optimum --


@pytest.mark.parametrize("p", [1.01, 1.05, 1.1, 2.0])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_smo_mkl_on_kernels_of_rank_one(p, C):
    """Where a step of a pair is beyond its best point at the end of the box, the search goes back."""
    problem = single_columns(penalties.SquaredLp(p), C)
    found = solve(problem, "smo-mkl")
    assert found.converged
    assert_same_optimum(found, solve(problem, "sqp"))


@pytest.mark.parametrize("solver, least", [("silp", 30), ("level", 5)])
def test_cutting_planes_at_large_costs_go_on_while_their_bounds_close(solver, least):
    problem = single_columns(penalties.L1(), 1e4)
    found = solve(problem, solver)
    assert found.converged and found.n_iter > least
    assert_same_optimum(found, solve(problem, "spg"))


@pytest.mark.parametrize("solver", [literature.SILP(), literature.LevelMethod()], ids=str)
def test_bounds_of_cuts_do_not_cross_where_svms_are_trained_roughly(solver):
    problem = single_columns(penalties.L1(), 1e4)
    state = solver.init(problem, None, 0.1)
    for _ in range(40):
        solver.step(problem, state)
        assert state.cuts.lower <= state.cuts.upper * (1 + 1e-9)


def test_a_projection_that_leaves_nothing_is_not_taken():
    shares, seen = np.ones(1), cuts.Cuts(totals=[1.0], costs=[np.ones(1)], upper=1e-300)
    assert_allclose(level.project(shares, seen, 0.5, np.ones(1)), [1.0])


@each_drawn
def test_sparse_methods_agree(n, m, C, seed):
    problem = unit(small(penalties.L1(), C=C, n=n, m=m, seed=seed))
    best = solve(problem, "sqp", tol=1e-8).certificate.upper
    for solver in SPARSE:
        found = solve(problem, solver, tol=1e-3)
        assert found.converged, solver
        assert found.certificate.lower <= best * (1 + 1e-7), solver
        assert best * (1 - 1e-7) <= found.certificate.upper <= best * (1 + 1e-3), solver


@each_drawn
def test_sparse_methods_agree_with_prices_and_other_losses(n, m, C, seed):
    for loss in (losses.SquaredHinge(), losses.Squared()):
        problem = unit(small(penalties.L1(PRICES), loss, C=C, n=n, m=m, seed=seed))
        best = solve(problem, "sqp", tol=1e-8)
        for solver in ("silp", "simplemkl", "level", "alternating", "qcqp", "spg"):
            found = solve(problem, solver, tol=1e-3)
            assert found.converged, solver
            assert_same_optimum(found, best)


def test_multiplicative_weights_agree_with_their_twins():
    problem = unit(small(penalties.L1(), losses.SquaredHinge(), n=60, m=6))
    best = solve(problem, "sqp", tol=1e-8)
    with pytest.warns(UserWarning, match="slow"):
        found = solve(problem, "mwu", tol=1e-3)
    assert found.converged
    assert_same_optimum(found, best)


@each_drawn
@each_p
def test_dense_methods_agree(n, m, C, seed, p):
    problem = unit(small(penalties.Lp(p), C=C, n=n, m=m, seed=seed))
    best = solve(problem, "sqp", tol=1e-8).certificate.upper
    for solver in DENSE:
        found = solve(problem, solver, tol=1e-3)
        assert found.converged, solver
        assert best * (1 - 1e-7) <= found.certificate.upper <= best * (1 + 1e-3), solver


@pytest.mark.parametrize(
    ("penalty", "value", "methods"),
    [
        (penalties.L1(), 3.941222, [s for s in SPARSE if s != "skm"]),
        (penalties.Lp(4 / 3), 3.831139, DENSE),
        (penalties.Lp(2), 3.723599, DENSE),
    ],
    ids=["l1", "l4/3", "l2"],
)
def test_reference_values(penalty, value, methods):
    problem = Problem(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), penalty)
    for solver in methods:
        found = solve(problem, solver, tol=1e-6).certificate
        assert_allclose([found.lower, found.upper], value, rtol=1e-5, err_msg=solver)


# -- a price on the weights and a bound on them --


@each_p
@pytest.mark.parametrize("solver", ["smo-mkl", "smo", "alternating"])
def test_the_price_that_gives_the_weights_of_the_bound(p, solver):
    """With half the p*-norm of the energies as strength, the price finds the same, and costs half of that more."""
    bounded = unit(small(penalties.Lp(p), C=5.0, n=60, m=6))
    known = solve(bounded, "sqp", tol=1e-10)
    strength = bounded.penalty.value(bounded.gram.energies(known.beta))
    priced = Problem(bounded.gram, bounded.loss, penalties.SquaredLp(p, strength))
    found = solve(priced, solver, tol=1e-7)
    assert found.certificate.upper == pytest.approx(known.certificate.upper + 0.5 * strength, rel=1e-6)
    assert_allclose(found.weights, known.weights, atol=5e-3)
    assert_allclose(decision(priced, found), decision(bounded, known), atol=5e-3)


@each_p
@pytest.mark.parametrize("strength", [0.1, 1.0, 20.0])
def test_the_cost_at_which_the_bound_gives_the_weights_of_the_price(p, strength):
    """The price at C finds s times the weights of the bound at s C, and the same decision values."""
    priced = unit(small(penalties.SquaredLp(p, strength), C=3.0, n=60, m=6))
    found = solve(priced, "smo-mkl", tol=1e-8)
    s = np.linalg.norm(found.weights, p)
    bounded = Problem(priced.gram, priced.loss.times(s), penalties.Lp(p))
    known = solve(bounded, "sqp", tol=1e-9)
    assert_allclose(found.weights / s, known.weights, atol=5e-3)
    assert_allclose(decision(priced, found), decision(bounded, known), atol=5e-3)


# -- laws of each paper --


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.L1(PRICES)], ids=label)
def test_simplemkl_never_rises(penalty):
    problem = unit(small(penalty, C=20.0, n=60, m=8))
    values, shares = [], []
    for state in march(problem, literature.SimpleMKL(), 1e-5):
        values.append(best_value(problem, state.svm.weights))
        shares.append(state.shares)
    assert len(values) > 4
    assert np.all(np.diff(values) <= 1e-6 * values[-1])
    assert values[0] > 1.05 * values[-1]
    assert_allclose(np.sum(shares, axis=1), 1.0, rtol=1e-9)
    assert np.min(shares) >= 0


def test_reduced_gradients_stay_in_the_simplex_and_lead_down(rng):
    for _ in range(50):
        shares, gradient = rng.dirichlet(np.ones(6)) * rng.integers(0, 2, 6), rng.normal(size=6)
        if not shares.any():
            continue
        along = simplemkl.direction(shares, gradient)
        assert along.sum() == pytest.approx(0.0, abs=1e-12)
        assert np.all(along[shares == 0] >= 0)
        assert gradient @ along <= 1e-12
        assert np.any(along) == bool(np.any((gradient != gradient[np.argmax(shares)]) & ((shares > 0) | (along > 0))))


@pytest.mark.parametrize("solver", [literature.SILP(), literature.LevelMethod(), literature.LevelMethod(0.9)], ids=str)
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.L1(PRICES)], ids=label)
def test_bounds_of_the_cuts_close_from_both_sides(solver, penalty):
    problem = unit(small(penalty, C=20.0, n=60, m=8))
    best = solve(problem, "sqp", tol=1e-9).certificate.upper
    bounds = [(state.cuts.lower, state.cuts.upper) for state in march(problem, solver, 1e-5)]
    lower, upper = np.array(bounds).T
    assert np.all(np.diff(lower) >= -1e-9 * best)
    assert np.all(lower <= best * (1 + 1e-8))
    assert lower[0] < 0.9 * best
    assert_allclose([lower[-1], upper[-1]], best, rtol=1e-4)


def test_every_machine_bounds_the_value_at_all_weights(rng):
    problem = unit(small(penalties.L1(), C=5.0, m=4))
    for weights in rng.dirichlet(np.ones(4), size=5):
        rough = svm.train(problem, weights, np.zeros(30), eps=0.3)
        q = problem.gram.energies(rough.beta)
        assert rough.value == pytest.approx(rough.total - 0.5 * weights @ q)
        for other in rng.dirichlet(np.ones(4), size=5):
            assert rough.total - 0.5 * other @ q <= best_value(problem, other) * (1 + 1e-9)


def test_the_mixture_of_the_cuts_is_worth_their_level():
    problem = unit(small(penalties.L1(), C=5.0, n=40, m=6))
    for state in march(problem, literature.SILP(), 1e-3):
        _, mixture = state.cuts.lowest()
        assert certify(problem, Point(mixture, np.full(6, 1 / 6))).lower >= state.cuts.lower - 1e-9


def test_projection_on_a_level_is_the_nearest_point(rng):
    for _ in range(30):
        m = int(rng.integers(2, 9))
        known = cuts.Cuts(totals=[3.0, 3.2, 2.9], costs=list(rng.exponential(2.0, size=(3, m))), upper=3.0)
        lowest, _ = cuts.Cuts(list(np.eye(3)), known.totals, known.costs, upper=3.0).lowest()
        slopes, totals = 0.5 * np.array(known.costs), np.array(known.totals)
        at = float(np.max(totals - slopes @ lowest)) + 0.1
        start = rng.dirichlet(np.ones(m))
        found = level.project(start, known, at, lowest)
        assert found.sum() == pytest.approx(1.0)
        assert found.min() >= 0
        assert np.all(totals - slopes @ found <= at + 1e-9)
        others = rng.dirichlet(np.full(m, 0.5), size=500)
        others = np.vstack([others[np.all(totals - others @ slopes.T <= at, axis=1)], lowest])
        assert np.all((others - found) @ (start - found) <= 1e-9)


@pytest.mark.parametrize("solver", ["silp", "level"])
def test_a_linear_programme_without_an_answer_ends_the_fit_with_the_best_point(solver, monkeypatch):
    monkeypatch.setattr(cuts.Cuts, "lowest", lambda self: None)
    found = solve(small(penalties.L1(), C=20.0), solver)
    assert found.status is Status.STALLED
    assert found.n_iter == 1
    assert found.certificate.lower <= found.certificate.upper < np.inf


def test_where_no_nearest_point_is_found_the_lowest_is_taken(monkeypatch):
    def gives_up(*args, **options):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(level, "nnls", gives_up)
    problem = small(penalties.L1(), C=20.0)
    plain, other = solve(problem, "silp", tol=1e-4), solve(problem, "level", tol=1e-4)
    assert (other.n_iter, other.certificate) == (plain.n_iter, plain.certificate)


def test_a_higher_level_takes_more_machines():
    problem = unit(small(penalties.L1(), C=20.0, n=60, m=8))
    counts = [solve(problem, literature.LevelMethod(share), tol=1e-4).n_iter for share in (0.29, 0.9)]
    assert counts[0] < counts[1]


@pytest.mark.parametrize("p", [1.05, 1.3, 2.0, 3.0, 40.0])
@pytest.mark.parametrize("size", [0.1, 1.0, 1e4, 1e12])
def test_projection_on_the_ball_is_the_nearest_point(rng, p, size):
    for v in size * rng.exponential(size=(10, 6)) * rng.integers(0, 2, (10, 6)):
        found = spg._on_ball(v, p)
        assert np.linalg.norm(found, p) <= 1 + 1e-12
        assert np.all(found >= 0)
        others = rng.exponential(size=(100, 6))
        others /= np.linalg.norm(others, p, axis=1)[:, None]
        assert np.all((others - found) @ (v - found) <= 1e-9 * max(1.0, size))


@pytest.mark.parametrize("penalty", [penalties.L1(PRICES), penalties.Lp(1.5)], ids=label)
def test_spg_stays_below_the_largest_of_the_last_ten(penalty):
    problem = unit(small(penalty, C=20.0, n=60, m=8))
    seen = [(best_value(problem, state.svm.weights), state.eps) for state in march(problem, literature.SPG(), 1e-6)]
    values, eps = np.array(seen).T
    assert all(values[i] <= values[max(i - 10, 0) : i].max() + 60 * 20.0 * eps[i - 1] for i in range(1, len(values)))
    assert values[-1] < 0.99 * values[0]
    assert np.all(np.diff(eps) <= 0)


def test_spg_draws_back_from_a_step_that_is_too_long():
    problem, solver = Problem(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), penalties.L1()), literature.SPG()
    state = solver.init(problem, None, 1e-3)
    state.shares, state.eps = np.array([0.01, 0.99, 0.0]), 1e-9  # the first kernel should have 0.0358
    assert solver.step(problem, state)
    state.length = spg.SETTINGS.longest
    far = spg.project(problem, state.shares - state.length * state.gradient)
    assert best_value(problem, far) > state.values[0]
    assert solver.step(problem, state)
    assert state.values[1] < state.values[0]
    assert 0.01 < state.shares[0] < 0.1


@each_p
def test_smo_mkl_climbs(p):
    problem = unit(small(penalties.SquaredLp(p), C=20.0, n=60, m=6))
    duals = [certify(problem, Point(s.beta.copy(), s.weights)).lower for s in march(problem, literature.SMOMKL(), 1e-6)]
    assert np.all(np.diff(duals) >= -1e-10 * duals[-1])


@each_p
def test_smo_mkl_reads_scaled_kernels_of_either_precision(p):
    problem = small(penalties.SquaredLp(p), C=5.0)
    stack, scale = problem.gram.stack, np.linspace(0.5, 2.0, 5)
    best = solve(Problem(DenseGram(stack * scale), *vars_of(problem)), "sqp", tol=1e-9).certificate.upper
    for kept in (stack, stack.astype(np.float32)):
        found = solve(Problem(DenseGram(kept, scale), *vars_of(problem)), "smo-mkl", tol=1e-5)
        sure = found.certificate
        assert found.converged or kept.dtype == np.float32  # in which rounding alone may take more than that
        assert sure.upper - sure.lower - sure.widened <= 1e-5 * sure.upper
        assert sure.upper == pytest.approx(best, rel=2e-5)


@each_p
def test_compiled_curvature_of_the_price_is_that_of_the_penalty(p, rng):
    from kernelweave.compiled.smo_mkl import bends

    penalty = penalties.SquaredLp(p, strength=0.7)
    _, params = penalty.compiled(5)
    for q, b in zip(rng.exponential(size=(20, 5)) + 0.1, rng.normal(size=(20, 5)), strict=True):
        own, w = np.empty(5), penalty.weights(q)
        joint = bends(params, q, w, own)
        assert own @ b**2 + joint * (w @ b) ** 2 == pytest.approx(2 * b @ penalty.curvature(q) @ b, rel=1e-9)


def test_group_lasso_updates_are_those_of_alternation(rng):
    """As the 2010 paper has them: for p = 1 a share of the sum, for p a power of the norms."""
    for u in rng.exponential(size=(10, 6)):
        assert_allclose(penalties.L1().weights_of_norms(u), u / u.sum())
        for p in (1.5, 2.0):
            assert_allclose(
                penalties.Lp(p).weights_of_norms(u),
                u ** (2 / (1 + p)) / np.sum(u ** (2 * p / (1 + p))) ** (1 / p),
            )
    for name, penalty in (("glmkl", "l1"), ("glmkl-p2", "lp")):
        assert kw.recipe(name).get_params() == kw.MKLClassifier(penalty=penalty, solver="alternating").get_params()


def test_cone_multipliers_are_the_weights():
    problem = Problem(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), penalties.L1(np.array([1.0, 0.8, 1.3])))
    found = solve(problem, "qcqp", tol=1e-6)
    assert_allclose(found.weights, solve(problem, "sqp", tol=1e-9).weights, atol=1e-4)
    assert problem.penalty.prices(3) @ found.weights == pytest.approx(1.0)


# -- manners --


@pytest.mark.parametrize("solver", ["silp", "simplemkl", "level", "qcqp", "spg"])
def test_kernels_computed_on_demand_do(solver):
    X, y = draw(30, 0)
    stored = Problem(DenseGram(widths(X, 4)), losses.Hinge().bind(y, 2.0), penalties.L1())
    demand = Problem(on_demand(widths(X, 4), None), losses.Hinge().bind(y, 2.0), penalties.L1())
    assert_same_optimum(solve(demand, solver, tol=1e-5), solve(stored, solver, tol=1e-5))


@pytest.mark.parametrize(
    ("solver", "penalty", "words"),
    [
        ("silp", penalties.Lp(2), r"solver 'silp' is for penalty='l1', not Lp\(p=2\): use solver='sqp'\."),
        ("smo-mkl", penalties.Lp(2), r"solver 'smo-mkl' is for penalty=SquaredLp\(p\) with a finite p, not Lp\(p=2\)"),
        ("smo-mkl", penalties.SquaredLp(np.inf), "solver 'smo-mkl' is for penalty=SquaredLp"),
        ("spg", penalties.Lp(np.inf), r"solver 'spg' is for penalty='l1' and for Lp\(p\) with a finite p"),
        (literature.LevelMethod(1.0), penalties.L1(), "solver 'level' takes a level between 0 and 1, not 1.0"),
        (literature.LevelMethod("high"), penalties.L1(), "solver 'level' takes a level between 0 and 1, not 'high'"),
    ],
)
def test_refusals(solver, penalty, words):
    with pytest.raises(ValueError, match=words):
        solve(small(penalty), solver)


def test_without_clarabel_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(ImportError, match=r"solver 'qcqp' needs clarabel: pip install kernelweave\[conic\]"):
        solve(small(penalties.L1()), "qcqp")


def test_an_accuracy_beyond_the_cone_solver_is_owned_up_to():
    found = solve(small(penalties.L1(), C=100.0), "qcqp", tol=1e-14)
    assert found.status is Status.STALLED
    assert found.n_iter == 4
    assert 1e-14 < found.gap < 1e-4


@pytest.mark.parametrize("penalty", [penalties.SquaredLp(1.0), penalties.SquaredLp(2, strength=0.0)], ids=label)
def test_bad_prices_are_refused(penalty):
    with pytest.raises(ValueError, match=r"p must be greater than 1|strength must be positive"):
        small(penalty)
