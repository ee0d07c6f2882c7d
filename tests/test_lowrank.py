"""Kernels held as factors: the products, every solver on them, and the parts of the second-order ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from acceptance import takers
from agreement import assert_same_optimum, check_against, decision, primal, rebound
from kernelweave import DenseGram, Problem, losses, penalties, solve, solvers
from kernelweave.arrays import like, to_host
from kernelweave.grams import LowRankGram
from kernelweave.problem import Status
from kernelweave.solvers.mixing import SmoothWeights, WeightBarrier, WeightStep, limit_of, mixing_of
from kernelweave.solvers.reduced import Reduced, samples_that_matter
from reference import optimum_of
from registry import BINARY, FACTORS, PENALTIES, QUADRATIC, SOLVERS, factored, label, sized, usual

RANKS = (4, 1, 7, 3, 6)  # columns of the kernels, wide to narrow
M, D = len(RANKS), sum(RANKS)
NAMESPACE = sorted(set(FACTORS) - {"coordinate"})  # written for any array library
SLOW = ("gfb", "gfb-merged", "mehrotra")  # which take long to a tight gap
EVERYDAY = [penalties.L1(), penalties.Lp(4 / 3), penalties.ElasticNet(c1=0.4, c2=0.5)]
each_solver = pytest.mark.parametrize("solver", FACTORS)
each_everyday = pytest.mark.parametrize("penalty", EVERYDAY, ids=label)
each_loss = pytest.mark.parametrize("loss", BINARY, ids=label)
FITTING = [(solver, loss) for loss in QUADRATIC for solver in takers(FACTORS, gram="factors", loss=label(loss))]
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


@cache
def sample(n=70, seed=0, ranks=RANKS):
    """Return features of Gaussian kernels at a few landmarks each, and labels that none separates easily."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    parts = []
    for gamma, rank in zip(np.geomspace(0.03, 3.0, len(ranks)), ranks, strict=True):
        Z = X[rng.choice(n, rank, replace=False)]
        near, own = (np.exp(-gamma * ((A[:, None] - Z) ** 2).sum(axis=2)) for A in (X, Z))
        values, vectors = np.linalg.eigh(own)
        parts.append(near @ (vectors / np.sqrt(np.maximum(values, 1e-3))))
    return np.hstack(parts), y


def small(penalty, loss=None, C=2.0, n=70, seed=0, ranks=RANKS):
    V, y = sample(n, seed, ranks)
    return Problem(LowRankGram(V, ranks), (loss or losses.Hinge()).bind(y, C), sized(penalty, len(ranks)))


def suited(solver):
    """Return a loss that a solver takes."""
    return losses.SquaredHinge() if solver == "newton" else losses.Hinge()


def parts_of(gram):
    return [gram.features[:, first : first + rank] for first, rank in gram.segments()]


def moved(problem, features, **changes):
    """Return the problem with other features."""
    return replace(problem, gram=LowRankGram(features, changes.pop("ranks", problem.gram.ranks)), **changes)


def optimum(problem):
    stack = np.stack([part @ part.T for part in parts_of(problem.gram)], axis=2)
    return optimum_of(problem, stack)


def tight(solver):
    """Return a gap that a solver reaches in well under a second."""
    return 1e-3 if solver in SLOW else 1e-5 if solver == "newton" else 1e-7


# -- optima; what solvers take is in acceptance.csv --


def test_every_loss_has_solvers_for_every_penalty():
    for penalty in PENALTIES:
        for loss in BINARY:
            able = takers(FACTORS, gram="factors", loss=label(loss), penalty=label(penalty))
            assert len(able) >= (3 if loss in QUADRATIC else 1)


@pytest.mark.parametrize("penalty", PENALTIES, ids=label)
@each_loss
def test_the_choice_of_solver_always_works(penalty, loss):
    assert solve(small(penalty, loss), tol=1e-6).converged


@pytest.mark.parametrize("penalty", PENALTIES, ids=label)
@each_loss
def test_every_solver_agrees_with_the_choice_on_every_pair(penalty, loss):
    """Of the pairs of loss and penalty that a solver takes, the acceptance file solves some; here are all of labels."""
    problem = small(penalty, loss, n=40)
    best = solve(problem, tol=1e-6)
    for solver in takers(FACTORS, gram="factors", loss=label(loss), penalty=label(penalty)):
        found = solve(problem, solver, tol=1e-3)
        assert found.converged, f"{solver}: {found.certificate}"
        assert_same_optimum(found, best)


@each_solver
@each_everyday
@pytest.mark.parametrize("C", [1e-2, 100.0])
def test_small_and_large_costs(solver, penalty, C):
    problem = small(penalty, suited(solver), C=C, seed=1)
    check_against(problem, solve(problem, solver, tol=1e-3), optimum(problem), 1e-3)


@pytest.mark.parametrize(("solver", "loss"), FITTING, ids=label)
@each_everyday
def test_factors_of_full_rank_give_the_optimum_of_the_kernels(solver, penalty, loss):
    V, y = sample(25, ranks=(6, 5, 4))
    stack = np.stack([V[:, :6] @ V[:, :6].T, np.exp(-((V[:, None, 0] - V[:, 0]) ** 2)), np.eye(25)], axis=2)
    exact = Problem(DenseGram(stack), loss.bind(y, 2.0), sized(penalty, 3))
    found = solve(replace(exact, gram=factored(stack, None)), solver, tol=1e-4)
    assert found.converged
    assert_same_optimum(found, solve(exact, "sqp", tol=1e-6))


# -- the same in every library --


def elsewhere(problem, xp, dtype="float64"):
    """Return the problem with its features in another library."""
    features = xp.asarray(problem.gram.features.tolist(), dtype=getattr(xp, dtype))
    return replace(problem, gram=LowRankGram(features, problem.gram.ranks))


STEPS = {"interior": 6, "mehrotra": 8, "newton": 3, "ssnal": 5, "gfb": 4, "gfb-merged": 4}


PAIRS = [(solver, suited(solver)) for solver in NAMESPACE]
PAIRS += [("interior", losses.SquaredHinge()), ("newton", losses.Squared())]


@pytest.mark.parametrize(("solver", "loss"), PAIRS, ids=[f"{solver}-{label(loss)}" for solver, loss in PAIRS])
@each_everyday
def test_libraries_go_the_same_way(solver, loss, penalty, xp):
    """After a number of steps, whether or not the gap asked for is met: bounds, weights and duals agree."""
    problem = small(penalty, loss)
    ours = solve(problem, solver, tol=1e-12, max_iter=STEPS[solver])
    theirs = solve(elsewhere(problem, xp), solver, tol=1e-12, max_iter=STEPS[solver])
    assert type(theirs.beta) is type(theirs.coef) is type(elsewhere(problem, xp).gram.features)
    assert theirs.certificate.lower == pytest.approx(ours.certificate.lower, rel=1e-8)
    assert theirs.certificate.upper == pytest.approx(ours.certificate.upper, rel=1e-8)
    assert_allclose(theirs.weights, ours.weights, atol=1e-8)
    assert_allclose(to_host(theirs.beta), ours.beta, atol=1e-7)


@pytest.mark.parametrize("solver", ["interior", "newton", "ssnal"])
@pytest.mark.parametrize("penalty", EVERYDAY[1:], ids=label)
def test_libraries_find_the_same_optimum(solver, penalty, xp):
    problem = small(penalty, suited(solver))
    ours = solve(problem, solver, tol=1e-10)
    theirs = solve(elsewhere(problem, xp), solver, tol=1e-10)
    assert theirs.converged
    assert theirs.certificate.upper == pytest.approx(ours.certificate.upper, rel=1e-9)


@each_solver
@each_everyday
def test_features_of_single_precision_are_enough(solver, penalty):
    problem = small(penalty, suited(solver))
    rounded = moved(problem, problem.gram.features.astype(np.float32))
    tol = min(tight(solver), 1e-5 if penalty.smooth else 1e-4)
    ours, theirs = solve(problem, solver, tol=tol), solve(rounded, solver, tol=tol)
    assert theirs.converged
    assert theirs.certificate.lower == pytest.approx(ours.certificate.upper, rel=1e-5 + tol)


# -- products --


@pytest.fixture
def products(xp, rng):
    """Return a function that draws features of a precision, as factors and as plain float64."""

    def draw(dtype, n=41):
        plain = (rng.normal(size=(n, D)) * np.geomspace(1e-3, 1e3, n)[:, None]).astype(dtype)
        return LowRankGram(xp.asarray(plain.tolist(), dtype=getattr(xp, dtype)), RANKS), plain.astype(float)

    return draw


@each_dtype
@pytest.mark.parametrize("chunk", [7, 60, 2**22])
def test_products_are_sums_in_double_precision(products, dtype, chunk, rng, monkeypatch):
    monkeypatch.setattr("kernelweave.grams.lowrank.CHUNK", chunk)
    gram, V = products(dtype)
    for shape in ((), (1,), (3,)):
        beta, z = rng.normal(size=(41, *shape)), rng.normal(size=(D, *shape))
        folded, lifted = gram.rmatvec(gram.asarray(beta)), gram.matvec(gram.asarray(z))
        assert type(folded) is type(lifted) is type(gram.features)
        assert_allclose(to_host(folded), V.T @ beta, atol=1e-12 * np.abs(V.T @ beta).max())
        assert_allclose(to_host(lifted), V @ z, rtol=1e-12, atol=1e-12 * np.abs(V[:1]).max())


@each_dtype
@pytest.mark.parametrize("chunk", [7, 60, 2**22])
def test_weighted_product(products, dtype, chunk, rng, monkeypatch):
    monkeypatch.setattr("kernelweave.grams.lowrank.CHUNK", chunk)
    gram, V = products(dtype)
    theta = rng.random(41)
    whole = to_host(gram.weighted(gram.asarray(theta)))
    assert_allclose(whole, V.T @ (theta[:, None] * V), rtol=1e-9, atol=1e-12 * whole.max())
    rough = to_host(gram.weighted(gram.asarray(theta), rough=True))
    assert rough.dtype == np.float64
    assert_allclose(rough, whole, atol=(1e-5 if dtype == "float32" else 1e-12) * whole.max())


@each_dtype
@pytest.mark.parametrize("chunk", [7, 2**22])
def test_weighted_product_of_some_rows_leaves_the_others_out(products, dtype, chunk, rng, monkeypatch):
    monkeypatch.setattr("kernelweave.grams.lowrank.CHUNK", chunk)
    gram, _ = products(dtype)
    rows = np.sort(rng.permutation(41)[:17])
    theta, mask = rng.random(41), np.isin(np.arange(41), rows)
    some = gram.weighted(gram.asarray(theta), like(gram.features, rows, "int64"))
    masked = to_host(gram.weighted(gram.asarray(theta * mask)))
    assert_allclose(to_host(some), masked, rtol=1e-12, atol=1e-14 * masked.max())


@each_dtype
def test_kernels_of_factors(products, dtype, rng):
    gram, V = products(dtype)
    beta, weights = rng.normal(size=41), rng.random(M)
    kernels = [V[:, first : first + rank] @ V[:, first : first + rank].T for first, rank in gram.segments()]
    u, v = rng.normal(size=(2, D))
    inner = [u[first : first + rank] @ v[first : first + rank] for first, rank in gram.segments()]
    assert gram.shape == (41, M)
    assert_allclose(gram.energies(gram.asarray(beta)), [beta @ K @ beta for K in kernels], rtol=1e-12)
    expected = sum(w * K @ beta for w, K in zip(weights, kernels, strict=True))
    assert_allclose(to_host(gram.decision(gram.asarray(beta), weights)), expected, rtol=1e-9)
    assert_allclose(to_host(gram.diagonal()), np.stack([np.diag(K) for K in kernels], axis=1), rtol=1e-12)
    assert_allclose(gram.inner(gram.asarray(u), gram.asarray(v)), inner, rtol=1e-12)
    assert_array_equal(to_host(gram.per_column(weights)), np.repeat(weights, RANKS))
    index = rng.permutation(41)[:9]
    assert_array_equal(to_host(gram.take(index).features), to_host(gram.features)[index])


def test_features_are_kept_not_copied(rng):
    V = rng.normal(size=(8, 3))
    assert np.shares_memory(LowRankGram(V, [1, 2]).features, V)
    frozen = V.copy()
    frozen.flags.writeable = False
    assert_array_equal(LowRankGram(frozen, [1, 2]).energies(np.ones(8)), LowRankGram(V, [1, 2]).energies(np.ones(8)))


@pytest.mark.parametrize("features", [np.ones(6), np.ones((2, 3, 1)), np.ones((2, 6), int), np.ones((2, 6), "f2")])
def test_features_that_are_none_are_refused(features):
    with pytest.raises(ValueError, match=r"^features must have shape \(n, D\) and hold float32 or float64\.$"):
        LowRankGram(features, [6])


@pytest.mark.parametrize("ranks", [[6, 1], [5], [0, 6], [7, -1], [[6]], 6, []])
def test_ranks_that_do_not_fit_are_refused(ranks):
    with pytest.raises(ValueError, match=r"^ranks must be whole numbers from 1 on that add up to the 6 columns\.$"):
        LowRankGram(np.ones((2, 6)), ranks)


# -- invariances --


@each_solver
@each_everyday
def test_permuting_samples_and_kernels_permutes_the_answer(solver, penalty, rng):
    problem, tol = small(penalty, suited(solver)), tight(solver)
    rows, kernels = rng.permutation(70), rng.permutation(M)
    parts = parts_of(problem.gram)
    features, ranks = np.hstack([parts[k][rows] for k in kernels]), [RANKS[k] for k in kernels]
    other = moved(problem, features, ranks=ranks, loss=problem.loss.take(rows))
    found, again = solve(problem, solver, tol=tol), solve(other, solver, tol=tol)
    assert_same_optimum(found, again)
    assert_allclose(again.weights, found.weights[kernels], atol=2 * tol**0.5)
    assert_allclose(decision(other, again), decision(problem, found)[rows], atol=5 * tol**0.5)


@each_solver
@each_everyday
def test_rotating_the_columns_of_a_kernel_changes_nothing(solver, penalty, rng):
    problem, tol = small(penalty, suited(solver)), tight(solver)
    turned = [part @ np.linalg.qr(rng.normal(size=(part.shape[1],) * 2))[0] for part in parts_of(problem.gram)]
    other = moved(problem, np.hstack(turned))
    found, again = solve(problem, solver, tol=tol), solve(other, solver, tol=tol)
    assert_same_optimum(found, again)
    assert_allclose(again.weights, found.weights, atol=2 * tol**0.5)


@each_solver
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(4 / 3), penalties.Lp(2)], ids=label)
def test_larger_kernels_and_smaller_cost_leave_the_decision(solver, penalty):
    problem, tol = small(penalty, suited(solver), C=4.0), tight(solver)
    scaled = moved(problem, 2.0 * problem.gram.features, loss=problem.loss.times(0.25))
    found, other = solve(problem, solver, tol=tol), solve(scaled, solver, tol=tol)
    assert_allclose(decision(scaled, other), decision(problem, found), atol=5 * tol**0.5)
    assert_same_optimum(found, other, 4.0)


@each_solver
@each_everyday
def test_doubling_a_sample_is_doubling_its_cost(solver, penalty):
    problem, tol = small(penalty, suited(solver)), tight(solver)
    index = np.r_[np.arange(70), 4, 7]
    longer = moved(problem, problem.gram.features[index], loss=problem.loss.take(index))
    dearer = rebound(problem, C=np.where(np.isin(np.arange(70), [4, 7]), 4.0, 2.0))
    assert_same_optimum(solve(longer, solver, tol=tol), solve(dearer, solver, tol=tol))


@each_solver
@each_everyday
def test_a_kernel_of_zeros_gets_no_say(solver, penalty):
    problem, tol = small(penalty, suited(solver)), tight(solver)
    features = np.insert(problem.gram.features, [RANKS[0]] * 2, 0.0, axis=1)
    padded = moved(problem, features, ranks=[RANKS[0], 2, *RANKS[1:]])
    found, other = solve(problem, solver, tol=tol), solve(padded, solver, tol=tol)
    assert other.converged
    assert_same_optimum(found, other)


@each_solver
def test_one_kernel_one_column(solver):
    for penalty in EVERYDAY:
        problem = small(penalty, suited(solver), ranks=(1,))
        check_against(problem, solve(problem, solver, tol=1e-4), optimum(problem), 1e-4)


@each_solver
@each_everyday
def test_two_samples(solver, penalty):
    for C in (0.01, 10.0):
        gram = LowRankGram(np.array([[-1.0, 0.0, 2.0], [1.0, 0.5, 0.0]]), [1, 2])
        problem = Problem(gram, suited(solver).bind(np.array([-1.0, 1.0]), C), penalty)
        check_against(problem, solve(problem, solver, tol=1e-3), optimum(problem), 1e-3)


# -- the loop --


@each_solver
@each_everyday
def test_warm_starts_are_taken(solver, penalty, rng):
    problem = small(penalty, suited(solver))
    found = solve(problem, solver, tol=tight(solver))
    noise = rng.normal(size=70)
    for start in (found.beta, 0.0 * noise, 1e-3 * noise, 100.0 * noise):
        again = solve(problem, solver, tol=1e-3, start=start)
        assert again.converged
        assert_same_optimum(found, again)


@each_solver
@each_everyday
def test_one_step_returns_an_honest_wide_certificate(solver, penalty):
    problem = small(penalty, suited(solver), C=100.0)
    found, best = solve(problem, solver, tol=1e-14, max_iter=1), solve(problem, tol=1e-8).certificate
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 1
    assert found.certificate.lower <= best.upper
    assert found.certificate.upper >= best.lower
    assert primal(problem, found) == pytest.approx(found.certificate.upper, rel=1e-8)


@each_solver
@each_everyday
def test_bounds_in_the_history_only_improve(solver, penalty):
    history = solve(small(penalty, suited(solver), C=20.0), solver, tol=1e-3).history
    assert np.all(np.diff(history.lower) >= 0)
    assert np.all(np.diff(history.upper) <= 0)
    assert np.all(np.diff(history.iteration) > 0)
    assert history.gap[-1] <= 1e-3


@each_solver
def test_solvers_are_knobs_and_nothing_else(solver):
    one = solvers._NAMES[solver]()
    before = dict(vars(one))
    assert solve(small(penalties.L1(), suited(solver)), one).converged
    assert solve(small(penalties.Lp(2), suited(solver)), one).converged
    assert vars(one) == before
    assert repr(clone(one)) == repr(one)


@each_solver
def test_no_kernel_worth_its_price_is_the_zero_model(solver):
    found = solve(small(penalties.ElasticNet(c1=1e4, c2=1.0), suited(solver)), solver, tol=1e-6)
    assert found.converged
    assert not found.weights.any()


# -- refusals --


@each_solver
def test_solvers_on_factors_refuse_kernels(solver):
    problem = replace(small(penalties.Lp(2), suited(solver)), gram=DenseGram(np.eye(70)[:, :, None]))
    with pytest.raises(ValueError, match=f"^solver '{solver}' works on features of low rank, which DenseGram does not"):
        solve(problem, solver)


@pytest.mark.parametrize("solver", sorted({*SOLVERS, "frank-wolfe"} - {"sqp"}))
def test_solvers_on_entries_of_kernels_refuse_factors(solver):
    with pytest.raises(ValueError, match=f"^solver '{solver}' works on .*, which LowRankGram does not have: "):
        solve(small(usual(solver)), solver)


# -- interior point --


@cache
def larger(C, penalty):
    """Return a problem of 400 samples and 40 columns."""
    return small(penalty, C=C, n=400, seed=2, ranks=(8, 5, 12, 3, 10, 2))


FOLLOWED = [*EVERYDAY, penalties.Lp(1.05), penalties.Lp(2.0), penalties.MoreauYosida()]


@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("penalty", FOLLOWED, ids=label)
def test_the_number_of_steps_hardly_depends_on_the_problem(C, penalty):
    problem = larger(C, penalty)
    found = solve(problem, "interior", tol=1e-6)
    assert found.converged
    assert found.n_iter <= 25


@pytest.mark.parametrize("penalty", [EVERYDAY[0], EVERYDAY[2], penalties.MoreauYosida()], ids=label)
def test_weights_that_vanish_are_exact_zeros(penalty):
    problem = small(penalty, C=0.02)
    found, best = solve(problem, "interior", tol=1e-7), optimum(problem).weights
    assert np.count_nonzero(best > 1e-4) < M
    assert set(np.flatnonzero(found.weights)) == set(np.flatnonzero(best > 1e-4))


# -- the system of the second-order solvers --


def drawn_system(xp, rng, n=60, penalty=None):
    """Return factors, u, weights, their Jacobian and theta of very different sizes, some of it zero."""
    V = rng.normal(size=(n, D))
    gram = LowRankGram(xp.asarray(V.tolist(), dtype=xp.float64), RANKS)
    u = rng.normal(size=D)
    q = np.add.reduceat(u * u, gram.starts)
    penalty = penalty or penalties.Lp(1.3)
    theta = np.exp(rng.uniform(-20.0, 3.0, size=n)) * (np.arange(n) > 4)
    return gram, V, u, penalty.weights(q), penalty.curvature(q), theta


def dense_answer(V, u, weights, jacobian, theta, r, p, s):
    """Return x and b by a plain solve of all n + 1 equations, and S."""
    n, owner = len(V), np.repeat(np.arange(M), RANKS)
    U = np.where(owner[:, None] == np.arange(M), u[:, None], 0.0)
    S = np.diag(weights[owner]) + 2.0 * U @ jacobian @ U.T
    top = np.column_stack([np.eye(n) + theta[:, None] * (V @ S @ V.T), theta])
    matrix = np.vstack([top, np.append(np.ones(n), 0.0)])
    answer = np.linalg.solve(matrix, np.append(theta * (r - V @ p), s))
    return answer[:n], answer[n], S


@pytest.mark.parametrize("rough", [True, False])
@pytest.mark.parametrize("penalty", [penalties.Lp(1.3), penalties.MoreauYosida(), penalties.Fixed()], ids=label)
def test_reduced_solves_the_whole_system(xp, rng, penalty, rough):
    gram, V, u, weights, jacobian, theta = drawn_system(xp, rng, penalty=penalty)
    system = Reduced(gram, gram.spread(gram.asarray(u)), weights, jacobian, gram.asarray(theta), 1e-11, rough)
    for _ in range(3):
        r, p, s = rng.normal(size=60), rng.normal(size=D), rng.normal()
        x, bias, folded = system.solve(gram.asarray(r), gram.asarray(p), s)
        expected, level, _ = dense_answer(V, u, weights, jacobian, theta, r, p, s)
        assert_allclose(to_host(x), expected, atol=1e-9)
        assert bias == pytest.approx(level, abs=1e-9)
        assert_allclose(to_host(folded), V.T @ expected, atol=1e-8)
        assert float(np.sum(to_host(x))) == pytest.approx(s, abs=1e-9)
    assert not system.failed


@pytest.mark.parametrize("close", [1.0, 1e-2, 1e-5])
def test_reduced_is_as_close_as_asked(xp, rng, close):
    gram, V, u, weights, jacobian, theta = drawn_system(xp, rng)
    system = Reduced(gram, gram.spread(gram.asarray(u)), weights, jacobian, gram.asarray(theta), close)
    r, p = rng.normal(size=60), rng.normal(size=D)
    _, _, folded = system.solve(gram.asarray(r), gram.asarray(p), 0.5)
    expected, _, S = dense_answer(V, u, weights, jacobian, theta, r, p, 0.5)
    assert np.linalg.norm(S @ (to_host(folded) - V.T @ expected)) <= close


def test_reduced_in_single_precision_is_corrected(rng):
    _, V, u, weights, jacobian, theta = drawn_system(np, rng)
    single = LowRankGram(V.astype(np.float32), RANKS)
    system = Reduced(single, single.spread(u), weights, jacobian, theta, 1e-10)
    r, p = rng.normal(size=60), rng.normal(size=D)
    x, _, _ = system.solve(r, p, 0.0)
    expected, _, _ = dense_answer(V.astype(np.float32).astype(float), u, weights, jacobian, theta, r, p, 0.0)
    assert_allclose(x, expected, atol=1e-8)


def test_samples_that_matter(xp, rng):
    theta = np.exp(rng.uniform(-30.0, 3.0, size=200))
    for spare in (1e-6, 0.1, 1.0):
        given = xp.asarray(theta.tolist(), dtype=xp.float64)
        kept, rows = samples_that_matter(given, spare)
        left = np.zeros(200, dtype=bool)
        left[to_host(rows)] = True
        assert 0.0 < theta[~left].sum() <= spare < theta[~left].sum() + theta[left].min()
        assert theta[~left].max() < theta[left].min()
        assert_array_equal(to_host(kept), np.where(left, theta, 0.0))


def test_all_samples_matter_where_few_could_be_spared(xp):
    even = xp.asarray([1.0] * 50, dtype=xp.float64)
    for spare in (0.0, 0.1, 4.5):
        kept, rows = samples_that_matter(even, spare)
        assert rows is None and kept is even
    kept, rows = samples_that_matter(even, 1e9)  # never all of them
    assert to_host(rows).size >= 1 and float(xp.sum(kept)) > 0


# -- weights in the system --


def energies(rng):
    return rng.uniform(0.5, 2.0, M)


BENT = [*(penalties.Lp(p) for p in (1.05, 2.0, 8.0)), penalties.MoreauYosida()]
UNPRICED = [penalties.Fixed(), penalties.Lp(np.inf), penalties.Group([0, 0, 1, 1, 1])]


@pytest.mark.parametrize("penalty", BENT, ids=label)
def test_at_the_end_of_the_barrier_weights_follow_the_penalty(penalty, rng):
    for q in (energies(rng) for _ in range(10)):
        w = penalty.weights(q)
        barrier = WeightBarrier(penalty)
        barrier.begin(q, 100.0, 1.0)
        barrier.weights = np.maximum(w, 1e-100)
        slope = penalty.weight_prices(barrier.weights)[1]
        barrier.level = float(np.max(q[w > 0] / slope[w > 0]))
        barrier.slack = np.where(w > 0, 0.0, barrier.level * slope - q)
        barrier.update(q)
        assert_allclose(barrier.weights, w, atol=1e-99)
        assert_allclose(barrier.jacobian, penalty.curvature(q), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("penalty", [*BENT, penalties.L1(np.linspace(0.7, 1.4, M))], ids=label)
def test_turns_of_the_barrier_solve_the_linearised_conditions(penalty, rng):
    q, inner, target = energies(rng), 0.1 * rng.normal(size=M), 0.3
    barrier = mixing_of(penalty, M)
    assert type(barrier) is WeightBarrier
    barrier.begin(q, 100.0, 1.0)
    turn = barrier.turn(barrier.aim(target, WeightStep(), 0.0), inner)
    price, slope, bend = penalty.weight_prices(barrier.weights)
    balance = barrier.slack + turn.slack + q + 2.0 * inner
    assert_allclose(balance, (barrier.level + turn.level) * slope + barrier.level * bend * turn.weights, rtol=1e-9)
    assert np.sum(price) + slope @ turn.weights == pytest.approx(1.0, rel=1e-9)
    w, s = barrier.weights, barrier.slack
    assert_allclose(w * s + w * turn.slack + s * turn.weights, 2.0 * barrier.share * target, rtol=1e-9)
    shift = barrier.pull(barrier.aim(target, WeightStep(), 0.0)) + barrier.jacobian @ (2.0 * inner)
    assert_allclose(turn.weights, shift, rtol=1e-8, atol=1e-10)


def test_turns_of_the_odds_solve_the_linearised_conditions(rng):
    penalty, q, inner, target = penalties.ElasticNet(1.1, 0.5), energies(rng), 0.1 * rng.normal(size=M), 0.3
    odds = mixing_of(penalty, M)
    odds.begin(q, 100.0, 1.0)
    turn = odds.turn(odds.aim(target, WeightStep(), 0.0), inner)
    reached = np.sqrt(q) + inner / np.sqrt(q) + odds.slack + turn.slack
    assert_allclose(reached, penalty.c1 * (1.0 + penalty.c2 * (odds.odds + turn.odds)), rtol=1e-9)
    products = odds.odds * odds.slack + odds.odds * turn.slack + odds.slack * turn.odds
    assert_allclose(products, odds.share * target / penalty.c1, rtol=1e-9)
    shift = odds.pull(odds.aim(target, WeightStep(), 0.0)) + odds.jacobian @ (2.0 * inner)
    assert_allclose(turn.weights, shift, rtol=1e-9)


def test_at_the_end_odds_give_the_weights_of_the_elastic_net(rng):
    penalty = penalties.ElasticNet(0.4, 0.5)
    q = energies(rng)
    odds = mixing_of(penalty, M)
    odds.begin(q, 100.0, 1.0)
    odds.odds, odds.slack = (np.sqrt(q) / penalty.c1 - 1.0) / penalty.c2, np.zeros(M)
    odds.update(q)
    assert_allclose(odds.weights, penalty.weights(q), rtol=1e-12)
    assert_allclose(odds.jacobian, penalty.curvature(q), rtol=1e-9)


@pytest.mark.parametrize("penalty", [*BENT, penalties.L1()], ids=label)
def test_turns_keep_weights_and_slacks_inside(penalty, rng):
    barrier = mixing_of(penalty, M)
    barrier.begin(energies(rng), 100.0, 1.0)
    for _ in range(20):
        turn = barrier.turn(barrier.aim(0.0, WeightStep(), 0.0), rng.normal(size=M))
        t = min(1.0, 0.99 * turn.limit)
        before = barrier.product()
        assert barrier.product(turn, 0.0) == pytest.approx(before)
        barrier.move(turn, t)
        assert np.all(barrier.weights > 0) and np.all(barrier.weights < penalty.ceiling(M))
        assert np.all(barrier.slack > 0) and barrier.level > 0
        barrier.update(energies(rng))


@pytest.mark.parametrize("penalty", UNPRICED, ids=label)
def test_penalties_without_prices_are_followed(penalty, rng):
    mix, q = mixing_of(penalty, M), energies(rng)
    mix.begin(q, 100.0, 1.0)
    assert type(mix) is SmoothWeights
    assert_array_equal(mix.weights, penalty.weights(q))
    assert_array_equal(mix.jacobian, penalty.curvature(q))
    assert mix.product() == 0.0


def test_limit_is_where_the_first_entry_vanishes(xp):
    x, dx = (xp.asarray(values, dtype=xp.float64) for values in ([1.0, 2.0, 4.0], [1.0, -4.0, -2.0]))
    assert limit_of(x, dx) == 0.5
    assert limit_of(x, x) == np.inf


def test_interior_cut_off_while_it_looks_at_few_samples_still_answers(rng):
    V, y = rng.normal(size=(17000, 4)), np.where(rng.normal(size=17000) > 0, 1.0, -1.0)
    problem = Problem(LowRankGram(V, [2, 2]), losses.Hinge().bind(y, 1.0), penalties.Lp(2.0))
    found = solve(problem, "interior", max_iter=2)
    assert found.status is Status.MAX_ITER
    assert found.beta.shape == (17000,) and found.certificate.lower <= found.certificate.upper
    assert solve(problem, "interior", tol=1e-4).converged


def test_newton_from_a_model_that_leaves_no_sample_in_error(rng):
    V = rng.normal(size=(40, 2)) + np.repeat([[8.0], [-8.0]], 20, axis=0)
    problem = Problem(LowRankGram(V, [1, 1]), losses.SquaredHinge().bind(np.sign(V[:, 0]), 1.0), penalties.Lp(2.0))
    assert solve(problem, "newton", start=100.0 * problem.loss.y).converged


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0), penalties.ElasticNet(0.1, 0.5)], ids=label)
def test_interior_where_the_kernels_tell_nothing_apart(penalty):
    problem = Problem(LowRankGram(np.ones((8, 1)), [1]), losses.Hinge().bind(np.repeat([1.0, -1.0], 4), 1.0), penalty)
    assert solve(problem, "interior").gap <= 1e-13  # what rounding may have done


def test_ranks_may_be_unsigned():
    gram = LowRankGram(np.ones((2, 6)), np.array([3, 3], dtype=np.uint8))
    assert_array_equal(gram.energies(np.ones(2)), [12.0, 12.0])


@pytest.mark.parametrize("C", [np.ones(3), np.ones((1, 4)), np.ones((4, 1))], ids=["short", "row", "column"])
def test_costs_of_another_shape_are_refused(C):
    with pytest.raises(ValueError, match="one for each of the 4 samples"):
        Problem(LowRankGram(np.eye(4), [4]), losses.Hinge().bind(np.array([1.0, 1.0, -1.0, -1.0]), C), penalties.L1())


@pytest.mark.parametrize("columns", [12, 300])
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.SquaredHinge(), losses.Hinge()], ids=label)
def test_large_costs_without_a_bias_take_few_steps(loss, columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, columns))
    y = np.sign(X[:, 0] + rng.normal(size=200))
    gram = LowRankGram(X, [columns // 3] * 3)
    problem = Problem(gram, loss.bind(y, C=1e3), penalties.L1(), dual_sum=None)
    assert solve(problem, max_iter=30).gap <= 1e-3


def test_rows_of_duals_that_are_zero_are_not_read(rng):
    V = rng.normal(size=(3000, 50))
    beta = np.where(np.arange(3000) % 7 == 0, rng.normal(size=3000), 0.0)
    wanted = V.T @ beta
    V[beta == 0.0] = np.nan
    for dtype, close in (("float64", 1e-12), ("float32", 1e-6)):
        assert_allclose(LowRankGram(V.astype(dtype), [50]).rmatvec(beta), wanted, atol=close * np.abs(wanted).max())


@each_dtype
def test_sums_of_nothing_are_zero(dtype):
    gram = LowRankGram(np.ones((5000, 50), dtype=dtype), [50])  # so many that only rows that count are read
    assert_array_equal(gram.rmatvec(np.zeros(5000)), np.zeros(50))
    assert_array_equal(gram.take(np.arange(0)).matvec(np.ones(50)), np.zeros(0))
    y = np.where(np.arange(5000) % 2, 1.0, -1.0)
    found = solve(Problem(gram, losses.Hinge().bind(y, C=1.0), penalties.Lp(2)), "ssnal")
    assert found.converged
