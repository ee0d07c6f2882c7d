"""Forward-backward splitting on factors: the corrected algorithm, its printed mistakes, and Clarabel."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from kernelweave import DenseGram, Problem, losses, penalties, solve
from kernelweave.arrays import to_host
from kernelweave.grams import LowRankGram
from kernelweave.problem import Status
from kernelweave.solvers.literature import GFB, MergedGFB
from reference import optimum_of
from registry import PENALTIES, QUADRATIC, label, sized

HINGE = losses.Hinge()
M, RANK = 4, 5
BOTH = [GFB, MergedGFB]
each_kind = pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.name)
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=label)
each_loss = pytest.mark.parametrize("loss", QUADRATIC, ids=label)
EVERYDAY = [penalties.L1(), penalties.Lp(2.0), penalties.ElasticNet(c1=0.4, c2=0.5)]
each_everyday = pytest.mark.parametrize("penalty", EVERYDAY, ids=label)


@cache
def factors(n=60, m=M, seed=0):
    """Return factors, not rotated, of Gaussian kernels on a few landmarks each, and labels."""
    X, y = make_classification(n, 6, n_informative=4, n_redundant=0, flip_y=0.1, class_sep=0.7, random_state=seed)
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(m):
        Z = X[:, rng.choice(6, size=3, replace=False)]
        marks = Z[rng.choice(n, size=RANK, replace=False)]
        near, own = (np.exp(-(0.1 * 2.0**k) * ((A[:, None] - marks) ** 2).sum(axis=2)) for A in (Z, marks))
        values, vectors = np.linalg.eigh(own + 1e-2 * np.eye(RANK))
        parts.append(near @ (vectors / np.sqrt(values)))
    return np.hstack(parts), 2.0 * y - 1.0


def small(penalty, C=1.0, n=60, m=M, loss=HINGE):
    V, y = factors(n, m)
    return Problem(LowRankGram(V, [RANK] * m), loss.bind(y, C), sized(penalty, m))


def blocks(problem):
    V = np.asarray(problem.gram.features, dtype=float)
    return [V[:, s : s + r] for s, r in problem.gram.segments()]


def best(problem):
    stack = np.stack([V @ V.T for V in blocks(problem)], axis=2)
    return optimum_of(problem, stack)


def assert_optimal(problem, found, tol):
    reference = best(problem)
    slack = 1e-6 + 10 * reference.accuracy
    where = f"{found.certificate} {found.status}, reference {reference.value}"
    assert found.converged, where
    assert found.gap <= tol, where
    assert found.certificate.lower <= reference.value * (1 + slack), where
    assert found.certificate.upper >= reference.value * (1 - slack), where


@each_kind
@each_penalty
@each_loss
def test_every_penalty_and_loss_is_certified_and_equals_clarabel(kind, penalty, loss):
    problem = small(penalty, loss=loss)
    assert_optimal(problem, solve(problem, kind(), tol=1e-4), 1e-4)


@each_kind
def test_costs_may_differ_from_sample_to_sample(kind):
    problem = small(penalties.Lp(2), C=np.geomspace(0.3, 3.0, 60))
    assert_optimal(problem, solve(problem, kind(), tol=1e-4), 1e-4)


@each_kind
@each_everyday
def test_libraries_agree(kind, penalty, xp):
    problem = small(penalty)
    features = xp.asarray(problem.gram.features.tolist(), dtype=xp.float64)
    there = replace(problem, gram=LowRankGram(features, problem.gram.ranks))
    ours, theirs = (solve(p, kind(), tol=1e-12, max_iter=6) for p in (problem, there))
    assert type(theirs.beta) is type(features)
    assert theirs.n_iter == ours.n_iter
    assert_allclose(to_host(theirs.beta), ours.beta, atol=1e-8)
    assert_allclose(theirs.weights, ours.weights, atol=1e-8)
    assert theirs.certificate.upper == pytest.approx(ours.certificate.upper, rel=1e-8)


@each_kind
def test_single_precision_features_are_solved_as_given(kind):
    problem = small(penalties.Lp(2))
    rounded = replace(problem, gram=LowRankGram(problem.gram.features.astype(np.float32), problem.gram.ranks))
    assert_optimal(rounded, solve(rounded, kind(), tol=1e-4), 1e-4)


# -- against the algorithm as it is written --


def naive(problem, steps, scale, relaxation=1.0, zeta=1.0, copies=None, printed_box=False, box_gamma=False):
    """Run Algorithm 2 at equal weights with all copies of all unknowns; the mean, as gamma and signed duals.

    ``printed_box`` is its line 20 as printed; ``box_gamma`` puts gamma into the box as well.
    """
    y, n, D = problem.loss.y, problem.loss.y.size, problem.gram.features.shape[1]
    weights = problem.penalty.weights_of_norms(np.ones(M))
    rows = []
    for k, (V, w) in enumerate(zip(blocks(problem), weights, strict=True)):
        A = np.zeros((RANK, D + n))
        A[:, k * RANK : (k + 1) * RANK] = np.eye(RANK)
        A[:, D:] = -scale * np.sqrt(w) * (y[:, None] * V).T
        rows.append(A)
    rows.append(np.concatenate([np.zeros(D), y])[None, :])
    onto = [np.eye(D + n) - A.T @ np.linalg.solve(A @ A.T, A) for A in rows]
    copies = np.zeros((M + 2, D + n)) if copies is None else copies
    for _ in range(steps):
        z = copies.mean(axis=0)
        gradient = np.concatenate([z[:D], -scale * np.ones(n)])
        for i, copy in enumerate(copies):
            v = 2.0 * z - copy - zeta * gradient
            if i <= M:
                v = onto[i] @ v
            else:
                v[D:] = np.clip(v[D:], 0.0, problem.loss.C / scale)
                v[:D] = np.clip(v[:D], 0.0, problem.loss.C.max()) if box_gamma else v[:D]
            copies[i] = v if printed_box and i == M + 1 else copy + relaxation * (v - z)
    z = copies.mean(axis=0)
    return z[:D], scale * y * z[D:]


def written_out(problem, state):
    """Return all copies of all unknowns that a state stands for."""
    duals = problem.loss.y * np.concatenate([state.sets, state.boxed[None, :]])
    gammas = np.repeat(state.rest[None, :], M + 2, axis=0)
    for k in range(M):
        gammas[k, k * RANK : (k + 1) * RANK] = state.own[k * RANK : (k + 1) * RANK]
    return np.hstack([gammas, duals])


@pytest.mark.parametrize(("relaxation", "zeta"), [(1.0, 1.0), (1.4, 1.0), (1.0, 1.8)])
def test_shared_copies_equal_all_copies(relaxation, zeta):
    problem, scale = small(penalties.Lp(2)), 0.3
    solver = GFB(scale=scale, relaxation=relaxation, zeta=zeta)
    state = solver.init(problem, 0.1 * problem.loss.y, 1e-3)
    state.weights = problem.penalty.weights_of_norms(np.ones(M))
    solver._weigh(problem, state)
    gamma, beta = naive(problem, 80, scale, relaxation, zeta, written_out(problem, state))
    for _ in range(80):
        solver._iterate(problem, state)
    assert_allclose(state.gamma(), gamma, atol=1e-12 * np.abs(gamma).max())
    assert_allclose(scale * state.dual(), beta, atol=1e-12 * np.abs(beta).max())


def value(problem, beta):
    beta = problem.feasible(beta)
    return float(problem.loss.y @ beta) - problem.penalty.value(problem.gram.energies(beta))


def test_the_printed_box_step_does_not_converge():
    problem = small(penalties.Fixed())
    optimum = best(problem).value
    assert value(problem, naive(problem, 4000, 0.3)[1]) >= 0.999 * optimum
    assert value(problem, naive(problem, 4000, 0.3, printed_box=True)[1]) < 0.99 * optimum


def test_the_box_is_not_for_gamma():
    problem = small(penalties.Fixed())
    assert value(problem, naive(problem, 4000, 0.3, box_gamma=True)[1]) < 0.95 * best(problem).value


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_the_papers_stopping_rule_fires_far_from_the_optimum(C):
    problem = small(penalties.Fixed(), C=C)
    found = solve(problem, GFB(scale=1.0, relaxation=1.0, stop="paper"), tol=1e-4)
    assert found.status is Status.OWN_TEST
    assert found.gap > 1e-2
    assert solve(problem, GFB(), tol=1e-3).converged


@each_kind
@each_loss
def test_the_solution_is_where_it_stays(kind, loss):
    problem = small(penalties.Fixed(), loss=loss)
    found = solve(problem, kind(), tol=1e-8)
    solver = kind()
    state = solver.init(problem, found.beta, 1e-8)
    for _ in range(20):
        solver._iterate(problem, state)
    assert_allclose(state.scale * state.dual(), found.beta, atol=2e-3)


@each_kind
def test_warm_start_saves_iterations(kind):
    problem = small(penalties.Lp(2))
    start = solve(problem, kind(), tol=1e-5).beta
    assert solve(problem, kind(), tol=1e-3, start=start).n_iter < solve(problem, kind(), tol=1e-3).n_iter


@each_kind
def test_the_scale_follows_the_units_of_the_kernels(kind):
    problem = small(penalties.Lp(2))
    larger = LowRankGram(10.0 * problem.gram.features, problem.gram.ranks)
    twin = Problem(larger, problem.loss.times(0.01), problem.penalty)
    scale, other = (kind().init(p, None, 1e-3).scale for p in (problem, twin))
    assert scale == pytest.approx(10.0 * other)


def test_weights_move_in_the_papers_way_too():
    found = solve(small(penalties.Lp(2)), GFB(stop="paper"), tol=1e-12)
    assert found.status is Status.OWN_TEST
    assert_allclose(found.weights, best(small(penalties.Lp(2))).weights, atol=0.1)


def test_the_scale_decides_the_speed():
    problem = small(penalties.Fixed())
    good, bad = (solve(problem, GFB(scale=scale)).n_iter for scale in ("auto", 3.0))
    assert 5 * good < bad


def test_over_relaxation_is_faster():
    problem = small(penalties.Fixed())
    fast, slow = (solve(problem, GFB(relaxation=lam)).n_iter for lam in (1.4, 0.5))
    assert fast < slow


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"scale": -1.0}, "positive number as scale"),
        ({"scale": "best"}, "positive number as scale"),
        ({"zeta": 2.0}, "zeta between 0 and 2"),
        ({"relaxation": 1.5}, "relaxation between 0 and 2 - zeta / 2"),
        ({"stop": "soon"}, "stops by 'gap' or as the 'paper' does"),
    ],
)
@each_kind
def test_parameters_out_of_range_are_refused(kind, params, match):
    with pytest.raises(ValueError, match=f"solver '{kind.name}' .*{match}"):
        solve(small(penalties.Lp(2)), kind(**params))


@each_kind
def test_stored_kernels_are_refused(kind):
    V, y = factors()
    problem = Problem(DenseGram((V @ V.T)[:, :, None]), HINGE.bind(y, 1.0), penalties.Lp(2))
    with pytest.raises(ValueError, match=f"solver '{kind.name}' works on .*, which DenseGram does not have"):
        solve(problem, kind())
