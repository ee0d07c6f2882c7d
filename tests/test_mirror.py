"""Stochastic mirror descent: what its iterates are, where they lead, and streams."""

from __future__ import annotations

import pickle

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import kernelweave as kw
from agreement import assert_same_optimum, check_against, primal, refuses
from kernelweave import DenseGram, Problem, losses, penalties, solve, solvers
from kernelweave import kernels as K
from kernelweave.certify import certify
from kernelweave.problem import Status
from reference import minimum, solve_by_clarabel
from registry import factored, label, on_demand

CLASSES = 3
LOSSES = [losses.Hinge(), losses.Logistic(), losses.CrammerSinger()]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=label)
MIXED = [penalties.Mixed(alpha=1.0), penalties.Mixed(exponent=7.0), penalties.Lp(1.5), penalties.ElasticNet(0.5, 1.0)]
each_penalty = pytest.mark.parametrize("penalty", MIXED, ids=label)


class Smoothed(losses.Loss):
    """A loss of one's own: the hinge with a rounded corner, known by four plain functions and nothing compiled."""

    def value(self, f, y, C):
        short = 1.0 - y * f
        return C * np.where(short > 1.0, short - 0.5, 0.5 * np.maximum(short, 0.0) ** 2)

    def slope(self, f, y, C):
        return -C * y * np.clip(1.0 - y * f, 0.0, 1.0)

    def dual(self, beta, y, C):
        return y * beta - 0.5 * beta**2 / C

    def project(self, beta, y, C):
        return y * np.clip(y * beta, 0.0, C)


def draw(loss, n=40, m=5, seed=0):
    """Return kernels and targets for a loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    codes = np.argmax(X @ rng.normal(size=(3, CLASSES)) + 0.5 * rng.normal(size=(n, CLASSES)), axis=1)
    codes[:CLASSES] = np.arange(CLASSES)
    far = ((X[:, None] - X) ** 2).sum(axis=2)
    gaussians = [np.exp(-gamma * far) for gamma in np.geomspace(0.03, 10.0, m - 1)]
    joint = isinstance(loss, losses.CrammerSinger)
    return np.stack([X @ X.T, *gaussians], axis=2), codes.astype(float) if joint else np.where(codes > 0, 1.0, -1.0)


def prepared(loss, penalty, build=DenseGram, C=1.0, **drawn):
    stack, y = draw(loss, **drawn)
    return Problem(build(stack) if build is DenseGram else build(stack, None), loss.bind(y, C), penalty, dual_sum=None)


def by_hand(problem, order):
    """Return the sums of minus the loss's slopes after the visits in ``order``, from the definition alone."""
    n, stack = problem.n, problem.gram.stack
    sums = np.zeros((n, *problem.shape[1:]))
    for t, i in enumerate(order):
        beta = sums * (n / t if t else 0.0)
        table = beta.reshape(n, -1)
        q = np.einsum("ic,ijk,jc->k", table, stack, table)
        weights = problem.penalty.weights(q) if t else np.zeros(q.size)
        f = np.einsum("jk,k,jc->c", stack[i], weights, table).reshape(1, *problem.shape[1:])
        sums[i] -= problem.loss.loss.slope(f, problem.loss.y[i : i + 1], problem.loss.C[i : i + 1])[0]
    return sums


# --- iterates -----------------------------------------------------------------------


@each_loss
@each_penalty
def test_iterates_are_those_of_the_definition_in_every_form(loss, penalty):
    problem = prepared(loss, penalty)
    shuffles = np.random.default_rng(4)
    order = np.concatenate([shuffles.permutation(40) for _ in range(3)])
    expected = by_hand(problem, order) / 3.0
    for build in (DenseGram, factored, on_demand):
        found = solve(prepared(loss, penalty, build), solvers.Mirror(epochs=3, random_state=4), tol=1e-9)
        assert found.status is Status.EPOCHS
        there = prepared(loss, penalty, build)
        state = solvers.Mirror(random_state=4).init(there, None, 1e-9)
        for _ in range(3):
            solvers.Mirror().step(there, state)
        assert_allclose(state.beta.reshape(problem.shape) / 3.0, expected, rtol=1e-12, atol=1e-12)


@each_loss
def test_kernels_and_features_walk_together(loss):
    """Every epoch of both forms leads to the same duals and weights, to rounding."""
    penalty = penalties.Mixed(alpha=1.0)
    walks = []
    for build in (DenseGram, factored):
        seen = []
        problem = prepared(loss, penalty, build, C=5.0)
        keep = [lambda _, __, point, seen=seen: seen.append((point.beta, point.weights))]
        solve(problem, solvers.Mirror(epochs=10, random_state=1), tol=1e-9, callbacks=keep)
        walks.append(seen)
    for (beta, weights), (other, others) in zip(*walks, strict=True):
        assert_allclose(beta, other, rtol=1e-12, atol=1e-12)
        assert_allclose(weights, others, rtol=1e-9, atol=1e-12)
        assert_array_equal(weights > 0, others > 0)


def test_a_seed_is_a_walk():
    problem = prepared(losses.Hinge(), penalties.Mixed(0.5))
    once, again, other = (
        solve(problem, solvers.Mirror(epochs=5, random_state=seed), tol=1e-9).beta for seed in (3, 3, 4)
    )
    assert_array_equal(once, again)
    assert np.any(once != other)


@each_loss
def test_every_epoch_ends_at_a_feasible_point(loss):
    """So the certificate is free: what the judge would project is where it should be already."""
    problem, seen = prepared(loss, penalties.Mixed(1.0), C=3.0), []
    solve(problem, solvers.Mirror(epochs=20), tol=1e-9, callbacks=[lambda _, __, point: seen.append(point)])
    assert len(seen) == 20
    for point in seen:
        assert_allclose(problem.feasible(point.beta), point.beta, atol=1e-12)
        honest = certify(problem, point, rescale=False)  # a search for the best scale is as fine as the gap
        watched = certify(problem, point, trust=True, rescale=False)
        assert watched.lower == pytest.approx(honest.lower, rel=1e-9, abs=1e-9)
        assert watched.upper == pytest.approx(honest.upper, rel=1e-9)


def test_running_norms_do_not_drift():
    problem = prepared(losses.CrammerSinger(), penalties.Mixed(0.1), C=100.0)
    solver = solvers.Mirror()
    state = solver.init(problem, None, 1e-3)
    for _ in range(300):
        solver.step(problem, state)
    assert_allclose(state.norms, problem.gram.energies(state.beta), rtol=1e-10)


def test_a_warm_start_counts_as_an_epoch():
    problem = prepared(losses.Hinge(), penalties.Mixed(0.5))
    exact = solve(problem, "ascent", tol=1e-8)
    warm = solve(problem, solvers.Mirror(epochs=3), start=exact.beta, tol=1e-9)
    cold = solve(problem, solvers.Mirror(epochs=2), tol=1e-9)
    assert warm.gap < cold.gap


# --- optima -----------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("seed", range(2))
def test_mirror_and_the_exact_solver_meet_clarabel(loss, seed):
    stack, y = draw(loss, n=60, m=8, seed=seed)
    penalty = penalties.Mixed(alpha=5.0 if isinstance(loss, losses.Logistic) else 9.0)
    reference = solve_by_clarabel(stack, y, 1.0, penalty, loss, dual_sum=None)
    problem = Problem(DenseGram(stack), loss.bind(y, 1.0), penalty, dual_sum=None)
    exact = solve(problem, "ascent", tol=1e-6)
    check_against(problem, exact, reference, 1e-6)
    quick = solve(problem, "mirror", tol=2e-3, max_iter=20_000)
    check_against(problem, quick, reference, 2e-3)
    alive, gone = (reference.weights > 1e-3 * reference.weights.max(), reference.weights < 1e-5)
    assert alive.any() and gone.any()
    for found in (exact, quick):
        assert np.all(found.weights[alive] > 0)
        assert np.all(found.weights[gone] == 0)


def test_a_loss_of_ones_own():
    problem = prepared(Smoothed(), penalties.Mixed(1.0))
    found = solve(problem, "mirror", tol=5e-3)
    assert found.converged
    assert refuses(problem, "ascent")
    stack, y = draw(Smoothed())
    factors = [np.linalg.cholesky(kernel + 1e-10 * np.eye(40)) for kernel in np.moveaxis(stack, 2, 0)]
    blocks = [cp.Variable(40) for _ in factors]
    margin = cp.multiply(y, cp.sum([L @ v for L, v in zip(factors, blocks, strict=True)]))
    norms, s = cp.vstack([cp.norm(v) for v in blocks])[:, 0], problem.penalty.power(5)
    price = 0.5 * cp.square(cp.pnorm(norms, s / (s - 1.0), approx=False)) + cp.sum(norms)
    rounded = 0.5 * cp.sum(cp.huber(cp.pos(1.0 - margin)))  # twice the loss at its corner, and beyond
    best, accuracy = minimum(price + rounded, [], size=0.5 * 40)
    assert accuracy <= 1e-6
    assert found.certificate.lower <= best * (1 + 1e-6)
    assert found.certificate.upper >= best * (1 - 1e-6)


class Leaky(losses.Loss):
    """A loss that falls for ever: no dual is zero, so that a shorter one is not feasible."""

    def value(self, f, y, C):
        return C * np.maximum(1.0 - y * f, 0.3 * (1.0 - y * f))

    def slope(self, f, y, C):
        return -C * y * np.where(y * f < 1.0, 1.0, 0.3)

    def dual(self, beta, y, C):
        return y * beta

    def project(self, beta, y, C):
        return y * np.clip(y * beta, 0.3 * C, C)


@pytest.mark.parametrize("penalty", [penalties.Mixed(0.5), penalties.ElasticNet(0.5, 0.5), penalties.Lp(1.5)])
def test_bounds_hold_where_zero_is_not_feasible(penalty):
    problem = prepared(Leaky(), penalty, C=0.5)
    found = solve(problem, solvers.Mirror(epochs=200), tol=1e-9)
    assert found.certificate.lower <= found.certificate.upper
    assert 0 <= found.gap < 0.5


def test_so_many_epochs_end_at_the_last_point():
    problem, seen = prepared(losses.Hinge(), penalties.Mixed(1.0), C=100.0), []
    found = solve(problem, solvers.Mirror(epochs=3), tol=1e-9, callbacks=[lambda _, __, point: seen.append(point)])
    assert_array_equal(found.weights, seen[-1].weights)
    assert_allclose(found.coef, seen[-1].beta, rtol=1e-12)
    assert found.certificate.scale == 1.0
    assert primal(problem, found) == pytest.approx(found.certificate.upper, rel=1e-9)


def test_features_of_single_precision():
    stack, y = draw(losses.Hinge())
    exact = factored(stack, None)
    rough = kw.grams.LowRankGram(exact.features.astype(np.float32), exact.ranks)
    bound = losses.Hinge().bind(y)
    problems = [Problem(gram, bound, penalties.Mixed(1.0), dual_sum=None) for gram in (exact, rough)]
    first, second = (solve(problem, "mirror", tol=5e-3) for problem in problems)
    assert_same_optimum(first, second, factor=1.0)
    dense = Problem(DenseGram(stack.astype(np.float32)), bound, penalties.Mixed(1.0), dual_sum=None)
    assert solve(dense, "mirror", tol=5e-3).converged


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (prepared(losses.Hinge(), penalties.L1()), "mirror"),
        (prepared(losses.SquaredHinge(), penalties.Mixed()), "mirror"),
        (prepared(losses.Hinge(), penalties.Mixed()), solvers.Mirror(epochs=0)),
        (prepared(losses.Hinge(), penalties.Mixed()), solvers.Mirror(random_state=-1)),
    ],
)
def test_refusals(problem, solver):
    assert refuses(problem, solver)


# --- recipes and streams -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X / 16.0, y, test_size=0.4, random_state=0, stratify=y)


BANK = K.rbf(gamma=[0.003, 0.03, 0.3, 3.0])


def machine(**params):
    return kw.recipe("ufo-mkl", BANK, C=1.0, approximation=kw.RandomFeatures(rank=200), random_state=0, **params)


def streamed(model, X, y, chunks, order, **options):
    for rows in np.array_split(order, chunks):
        model.partial_fit(X[rows], y[rows], classes=np.arange(10), **options)
    return model


@pytest.mark.parametrize("multiclass", ["joint", "ovr"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_a_stream_of_fifty_chunks_is_as_good_as_a_fit(digits, multiclass, C):
    X, new, y, labels = digits
    order = np.random.default_rng(0).permutation(y.size)
    whole = machine(multiclass=multiclass).set_params(C=C).fit(X, y).score(new, labels)
    assert whole > 0.92
    model = streamed(machine(multiclass=multiclass).set_params(C=C), X, y, 50, order)
    assert model.score(new, labels) >= whole - 0.01


def test_a_stream_is_the_epoch_of_a_fit(digits):
    """One chunk that is everything, its size told, is one epoch; the fit's judge only scales the answer."""
    X, _, y, _ = digits
    fitted = machine(solver=solvers.Mirror(epochs=1)).fit(X, y)
    stream = machine(solver=solvers.Mirror(epochs=1)).partial_fit(X, y, total=y.size)
    assert_allclose(stream.weights_, fitted.weights_, rtol=1e-6)
    one, other = stream.decision_function(X[:50]), fitted.decision_function(X[:50])
    assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_the_state_survives_pickling(digits):
    X, new, y, _ = digits
    order = np.arange(y.size)
    plain = streamed(machine(), X, y, 10, order)
    halfway = machine()
    for step, rows in enumerate(np.array_split(order, 10)):
        halfway = pickle.loads(pickle.dumps(halfway)) if step == 5 else halfway
        halfway.partial_fit(X[rows], y[rows], classes=np.arange(10))
    assert_array_equal(halfway.decision_function(new), plain.decision_function(new))


def test_what_a_stream_knows_and_does_not(digits):
    X, _, y, _ = digits
    model = machine().partial_fit(X[:200], y[:200], classes=np.arange(10))
    assert np.isnan(model.dual_gap_)
    assert "stream" in model.status_ and "200 samples" in model.summary()
    assert model.certificate() == []
    model.fit(X[:200], y[:200])
    assert model.dual_gap_ >= 0
    model.partial_fit(X[:100], y[:100], classes=np.arange(10))
    assert "100 samples" in model.summary()


def test_a_first_chunk_too_small_for_its_landmarks_is_told(digits):
    X, _, y, _ = digits
    model = machine().set_params(approximation=kw.Nystroem(rank=30))
    with pytest.warns(UserWarning, match="fewer than rank=30"):
        model.partial_fit(X[:20], y[:20], classes=np.arange(10))


def test_kernels_of_a_stream_have_the_size_asked_for(digits):
    X, _, y, _ = digits
    bank, features = K.rbf(gamma=[1e-2, 1.0]) + K.linear(), {"approximation": kw.Nystroem(rank=20), "random_state": 0}
    model = kw.recipe("ufo-mkl", bank, normalize="dimension", **features).partial_fit(X[:100], y[:100] > 4)
    sized = [float(scale) * kernel for scale, kernel in zip(model.kernel_scales_, bank, strict=True)]
    plain = kw.recipe("ufo-mkl", sized, normalize=None, **features).partial_fit(X[:100], y[:100] > 4)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-6, atol=1e-9)
    trace = kw.recipe("ufo-mkl", bank, **features).partial_fit(X[:100], y[:100] > 4)
    assert not np.allclose(trace.kernel_scales_, model.kernel_scales_, rtol=0.1)


def test_streams_say_what_they_cannot(digits):
    X, _, y, _ = digits
    with pytest.raises(AttributeError, match="partial_fit"):
        kw.MKLClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="two labels or more"):
        machine().partial_fit(X[:5], np.zeros(5))
    model = machine().partial_fit(X[y < 9][:100], y[y < 9][:100], classes=np.arange(9))
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[y == 9], y[y == 9])
    with pytest.raises(ValueError, match="from the start"):
        model.partial_fit(X[:10], y[:10], classes=np.arange(10))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:10, :5], y[:10])
    with pytest.raises(ValueError, match="dict or None"):
        machine(class_weight="balanced").partial_fit(X[:100], y[:100], classes=np.arange(10))
    with pytest.raises(ValueError, match="positive finite"):
        machine(class_weight={0: -1.0}).partial_fit(X[:100], y[:100], classes=np.arange(10))
    with pytest.raises(ValueError, match="label type"):
        machine().partial_fit(X[:100], X[:100, 2] + 0.5)
    with pytest.raises(ValueError, match=r"approximation='shared' .* use 'nystroem' or"):
        machine().set_params(approximation="shared").partial_fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="held out"):
        machine(probability=True).partial_fit(X[:100], y[:100], classes=np.arange(10))
    with pytest.raises(ValueError, match="changed since the first chunk"):
        model.set_params(multiclass="ovr").partial_fit(X[:10], np.zeros(10))


def test_weights_of_rows_and_classes_in_a_stream(digits):
    X, _, y, _ = digits
    X, y = X[y < 2][:100], y[y < 2][:100]
    heavy = machine(class_weight={0: 1.0, 1: 50.0}).partial_fit(X, y).decision_function(X)
    plain = machine().partial_fit(X, y).decision_function(X)
    assert heavy.mean() > plain.mean()
    half = np.arange(100) % 2 == 0
    some = machine().partial_fit(X, y, sample_weight=half.astype(float))
    left = machine().partial_fit(X[half], y[half])
    assert_allclose(some.decision_function(X), left.decision_function(X), rtol=1e-9, atol=1e-12)
    before = some.decision_function(X)
    some.partial_fit(X, y, sample_weight=np.zeros(100))
    assert_array_equal(some.decision_function(X), before)


def test_recipes_print_how_far_they_are(digits):
    X, _, y, _ = digits
    for name in ("ufo-mkl", "obscure"):
        model = kw.recipe(name, BANK, C=1.0).fit(X[:300], y[:300])
        assert model.status_ in (Status.EPOCHS.value, Status.CONVERGED.value)
        exact = kw.MKLClassifier(BANK, penalty=model.penalty, multiclass="joint", C=1.0).fit(X[:300], y[:300])
        assert exact.dual_gap_ <= 1e-3
        low, high = model.certificate().lower, model.certificate().upper
        assert low <= exact.certificate().upper and exact.certificate().lower <= high
