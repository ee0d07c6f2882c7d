"""Kernels computed column by column: the same numbers, the same optimum, and no more memory than was given."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import DenseGram, Problem, losses, penalties, solve
from kernelweave import kernels as K
from kernelweave.assemble import memory
from kernelweave.grams import CachedGram
from kernelweave.kernels import vector
from kernelweave.solvers.choose import choose
from kernelweave.solvers.sqp_rounds import largest_set

N, D = 70, 6


def points(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n))


def bank_on(X):
    families = (
        K.rbf(gamma=[0.1, 1.0])
        + K.rbf(gamma=[0.3, 2.0], on=[0, 1])
        + [K.Linear(), K.Polynomial(degree=2).normalised(), 2.0 * K.RBF(gamma=0.5) + K.Linear(on=2)]
    )
    return [kernel for family in families for kernel in family.resolve(X)]


def stored(bank, X):
    return np.stack([kernel(X) for kernel in bank], axis=2)


def cached(bank, X, columns, scale=None, dtype="float64"):
    room = columns * X.shape[0] * len(bank) * np.dtype(dtype).itemsize
    return CachedGram(bank, X, scale, memory=room, dtype=dtype)


# -- the same numbers --


@pytest.mark.parametrize("columns", [1, 7, 10**6])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_every_method_equals_that_of_stored_kernels(form, columns, rng, monkeypatch):
    monkeypatch.setattr("kernelweave.grams.cached.PIECE", 5 * N)
    monkeypatch.setattr("kernelweave.grams.cached.SQUARE", 16)
    X, _ = points()
    bank = bank_on(X)
    scale = np.linspace(0.5, 2.0, len(bank))
    dense, gram = DenseGram(stored(bank, X), scale), cached(bank, form(X), columns, scale)
    beta = rng.normal(size=N) * (rng.random(N) < 0.6)
    weights = np.array([0.3, 0.0, 1.0, 0.0, 0.5, 0.2, 0.1])
    index, kernels, rows = rng.permutation(N)[:23], np.array([5, 0, 2]), rng.permutation(N)[:11]
    close = {"rtol": 0, "atol": 1e-10}
    assert_allclose(gram.energies(beta), dense.energies(beta), **close)
    assert_allclose(gram.decision(beta, weights), dense.decision(beta, weights), **close)
    for mine, own in zip(
        gram.energies_and_decision(beta, weights), dense.energies_and_decision(beta, weights), strict=True
    ):
        assert_allclose(mine, own, **close)
    for _ in range(2):
        assert_allclose(gram.weighted_columns(beta[index], index), dense.weighted_columns(beta[index], index), **close)
    part = gram.weighted_columns(beta[index], index, rows, kernels)
    assert_allclose(part, dense.weighted_columns(beta[index], index, rows, kernels), **close)
    assert_allclose(gram.combine(index, weights), dense.combine(index, weights), **close)
    assert_allclose(gram.block(index, kernels), dense.block(index, kernels), **close)
    assert_allclose(gram.diagonal(), dense.diagonal(), **close)
    taken, few = gram.take(index), dense.take(index)
    assert_allclose(taken.energies(beta[index]), few.energies(beta[index]), **close)


def test_single_precision_is_only_in_the_columns_kept(rng):
    X, _ = points()
    bank = bank_on(X)
    dense, gram = DenseGram(stored(bank, X)), cached(bank, X, 10, dtype="float32")
    beta = rng.normal(size=N)
    assert_allclose(gram.energies(beta), dense.energies(beta), rtol=1e-12)
    spread, exact = gram.weighted_columns(beta, np.arange(N)), dense.weighted_columns(beta, np.arange(N))
    assert 1e-10 < np.abs(spread - exact).max() < 1e-5


# -- what is kept --


def test_the_columns_used_last_are_kept():
    X, _ = points()
    gram = cached([K.RBF(gamma=1.0).resolve(X)[0]], X, 4)
    rates = []
    for index in ([0, 1, 2], [0, 1, 2], [3], [4], [0], [3, 4, 1]):  # 4 takes the place of 0, which was used before 3
        gram.weighted_columns(np.ones(len(index)), np.array(index))
        rates.append((gram._found, gram._asked))
    assert rates == [(0, 3), (3, 6), (3, 7), (3, 8), (3, 9), (5, 12)]
    assert gram.hit_rate == pytest.approx(5 / 12)


def test_a_sample_may_be_asked_for_twice(rng):
    X, _ = points()
    bank = bank_on(X)
    dense, gram = DenseGram(stored(bank, X)), cached(bank, X, 6)
    for _ in range(60):
        index, delta = rng.integers(0, N, size=9), rng.normal(size=9)
        assert_allclose(gram.weighted_columns(delta, index), dense.weighted_columns(delta, index), atol=1e-10)


def test_what_depends_on_the_fixed_rows_is_done_once(monkeypatch):
    X, _ = points()
    sums = [K.RBF(gamma=0.5) + K.RBF(gamma=1.0, on=[0, 1]), K.RBF(gamma=0.5).normalised(), 3.0 * K.RBF(gamma=0.1)]
    gram = cached([kernel.resolve(X)[0] for kernel in sums], X, N)
    monkeypatch.setattr(vector._Places, "__init__", None)
    gram.weighted_columns(np.ones(9), np.arange(9))


class Halved(K.RBF):
    """A kernel with a statistic of its own."""

    statistic = "halved"

    def prepare(self, X, Z=None):
        return 0.5 * ((X[:, None] - (X if Z is None else Z)[None]) ** 2).sum(axis=2)


def test_a_kernel_made_from_another_prepares_its_own_way(rng):
    X, _ = points()
    beta = rng.normal(size=N)
    halved, plain = (cached([kernel.resolve(X)[0]], X, 5) for kernel in (Halved(gamma=1.0), K.RBF(gamma=0.5)))
    assert_allclose(halved.decision(beta, np.ones(1)), plain.decision(beta, np.ones(1)), atol=1e-10)


def test_a_copy_computes_its_own_columns(rng):
    X, _ = points()
    gram = cached(bank_on(X), X, 6)
    index, delta = np.arange(9), rng.normal(size=9)
    before = gram.weighted_columns(delta, index)
    for copy in (pickle.loads(pickle.dumps(gram)), deepcopy(gram)):
        assert np.isnan(copy.hit_rate)
        assert_array_equal(copy.weighted_columns(delta, index), before)


def test_a_combined_kernel_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr("kernelweave.grams.cached.COMBINED", 1000)
    X, _ = points()
    gram = cached(bank_on(X), X, 2)
    with pytest.raises(ValueError, match="use solver='auto', which needs none, or a larger memory="):
        gram.combine(np.arange(N), np.ones(7))
    assert gram.combine(np.arange(0), np.ones(7)).shape == (0, 0)


def test_parts_share_the_memory():
    X, _ = points()
    gram = cached(bank_on(X), X, 20)
    assert gram.take(np.arange(35))._columns.nbytes <= gram.memory / 4
    assert len(cached(bank_on(X), X, 1).take(np.arange(35))._held) == 1


def test_kept_columns_take_no_more_than_memory():
    X, _ = points()
    bank = bank_on(X)
    gram = CachedGram(bank, X, memory=10_000)
    gram.weighted_columns(np.ones(N), np.arange(N))
    assert 0 < gram._columns.nbytes <= 10_000
    with pytest.raises(ValueError, match=r"memory=100 does not hold one sample's column .* takes 1960 bytes"):
        CachedGram(bank, X, memory=100)


def test_a_family_computes_each_block_of_distances_once(monkeypatch):
    X, _ = points()
    gram = cached([k for k in bank_on(X) if isinstance(k, K.RBF)], X, N)
    made = []
    product = vector._Places._from_dense
    monkeypatch.setattr(vector._Places, "_from_dense", lambda self, X: made.append(X.shape[0]) or product(self, X))
    gram.weighted_columns(np.ones(9), np.arange(9))
    assert made == [9, 9]  # two families of two widths each
    gram.weighted_columns(np.ones(9), np.arange(9))
    assert made == [9, 9]


def test_a_column_that_failed_is_not_kept():
    X, _ = points()
    failing = K.Callable(lambda A, B: np.full((len(A), len(B)), np.nan), "broken", psd=True).resolve(X)[0]
    gram = cached([failing], X, 5)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken gives NaN or infinity on X"):
            gram.weighted_columns(np.ones(2), np.arange(2))


# -- distances --


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_small_whole_numbers_have_exact_distances_in_single_precision(form, rng):
    X = rng.integers(0, 3, size=(40, 9)).astype(np.float32)
    exact = ((X[:, None].astype(int) - X[None].astype(int)) ** 2).sum(axis=2)
    places = vector._Places(form(X))
    assert places.whole
    assert places.points.dtype == np.float32
    assert_array_equal(places.distances(form(X)), exact)
    assert_array_equal(places.distances(), exact)
    apart = rng.normal(size=(5, 9)).astype(np.float32)
    direct = ((apart[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    assert_allclose(places.distances(form(apart)), direct, rtol=1e-6)


def test_large_whole_numbers_are_left_in_double_precision(rng):
    X = rng.integers(0, 5000, size=(20, 3)).astype(np.float32)
    places = vector._Places(X)
    assert not places.whole
    exact = ((X[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    assert_allclose(places.distances(X[:7]), exact[:7], rtol=1e-6, atol=1e-3)


def test_many_sparse_samples_are_not_written_out(rng, monkeypatch):
    X = csr_matrix(np.where(rng.random((300, 40)) < 0.3, rng.normal(size=(300, 40)), 0.0))
    few, all_rows = vector._Places(X[:9]), X.toarray()
    assert not few.sparse
    exact = ((all_rows[:, None] - all_rows[None, :9]) ** 2).sum(axis=2)
    monkeypatch.setattr(vector, "DENSE", 1000)
    monkeypatch.setattr(vector, "WRITTEN", 5000)
    assert vector._Places(X).sparse
    written = []
    toarray = csr_matrix.toarray
    monkeypatch.setattr(csr_matrix, "toarray", lambda self: written.append(self.shape[0]) or toarray(self))
    assert_allclose(few.distances(X), exact, atol=1e-12)
    assert max(written) == 25


def test_samples_with_few_entries_stay_sparse(rng):
    X = np.where(rng.random((60, 50)) < 0.03, rng.normal(size=(60, 50)), 0.0)
    places = vector._Places(csr_matrix(X))
    assert places.sparse
    exact = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    assert_allclose(places.distances(csr_matrix(X[:9])), exact[:9], atol=1e-12)
    assert_allclose(places.distances(X[:9]), exact[:9], atol=1e-12)
    assert_allclose(places.distances(), exact, atol=1e-12)


# -- the same optimum --

PAIRS = [
    ("smo", penalties.Lp(2.0), 1e-6),
    ("smo", penalties.ElasticNet(c1=0.4, c2=0.5), 1e-6),
    ("proximal", penalties.L1(), 1e-6),
    ("sqp", penalties.L1(), 1e-6),
    ("sqp", penalties.Lp(1.5), 1e-6),
    ("alternating", penalties.L1(), 1e-3),
    ("skm", penalties.L1(), 1e-2),
    ("mwu", penalties.L1(), 3e-2),
]


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge()], ids=str)
@pytest.mark.parametrize(("solver", "penalty", "tol"), PAIRS, ids=lambda value: str(value))
def test_solvers_certify_the_same_optimum_with_any_room(solver, penalty, tol, loss):
    X, y = points(3)
    bank = bank_on(X)
    reference = solve(Problem(DenseGram(stored(bank, X)), loss.bind(y, 2.0), penalty), tol=1e-7)
    for columns in (1, 12, N):
        gram = cached(bank, X, columns, dtype="float32")
        found = solve(Problem(gram, loss.bind(y, 2.0), penalty), solver, tol=tol)
        assert found.converged
        assert found.solver == solver
        assert found.certificate.lower <= reference.certificate.upper * (1 + 1e-12)
        assert found.certificate.upper >= reference.certificate.lower * (1 - 1e-12)
        if solver != "sqp":  # which reads parts of columns only
            assert (found.history.hit_rate[-1] > 0.5) == (columns == N)


@pytest.mark.parametrize(
    ("solver", "penalty"),
    [("proximal", penalties.L1()), ("smo", penalties.Lp(2.0)), ("sqp", penalties.L1()), ("sqp", penalties.Lp(2.0))],
    ids=str,
)
def test_single_precision_columns_do_not_limit_the_answer(solver, penalty):
    X, y = points(5, n=150)
    bank = [kernel.resolve(X)[0] for kernel in (K.Polynomial(degree=3), K.Linear())]
    dense = DenseGram(stored(bank, X + 3.0))
    gram = CachedGram(bank, X + 3.0, memory=30 * 150 * 2 * 4)
    best = solve(Problem(dense, losses.Hinge().bind(y, 1e3), penalty), tol=1e-5)
    found = solve(Problem(gram, losses.Hinge().bind(y, 1e3), penalty), solver, tol=1e-4)
    assert found.converged
    assert found.certificate.upper == pytest.approx(best.certificate.upper, rel=1.1e-4)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Squared(), losses.EpsilonInsensitive(0.1)], ids=str)
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)], ids=str)
def test_working_sets_within_little_memory_find_the_same_optimum(penalty, loss, set_sqp):
    X, y = points(7, n=160)
    bank = bank_on(X)
    reference = solve(Problem(DenseGram(stored(bank, X)), loss.bind(y, 2.0), penalty), tol=1e-5)
    set_sqp(first=20, every=(0, 0), few_rows=2)
    gram = cached(bank, X, 2)
    problem = Problem(gram, loss.bind(y, 2.0), penalty)
    assert largest_set(problem, 1e-4) < 60
    found = solve(problem, "sqp", tol=1e-4)
    assert found.converged
    assert found.certificate.lower <= reference.certificate.upper * (1 + 1e-12)
    assert found.certificate.upper >= reference.certificate.lower * (1 - 1e-12)


def test_auto_works_on_sets_whose_kernels_fit():
    X, y = points(n=600)
    bank = bank_on(X)[:2]
    for penalty, name in ((penalties.L1(), "proximal"), (penalties.Lp(2.0), "smo")):
        for columns, expected in ((4, name), (600, "sqp")):
            problem = Problem(cached(bank, X, columns), losses.Hinge().bind(y, 1.0), penalty)
            assert choose(problem).name == expected
    some = Problem(cached(bank, X, 280), losses.SquaredHinge().bind(y, 1.0), penalties.L1())
    assert 500 < largest_set(some, 1e-3) < 600
    assert choose(some).name == "proximal"


def test_rows_of_a_combined_kernel_are_its_columns(rng):
    X, _ = points()
    bank, weights = bank_on(X), rng.random(7)
    whole = stored(bank, X)[:, :, [1, 4, 5]] @ weights[[1, 4, 5]]
    some, kernels = np.arange(3, 40), np.array([1, 4, 5])
    part = cached(bank, X, N).among(some, kernels, 8 * 37 * 3 * 5, "float64")
    assert_allclose(part.mixed_columns(np.arange(20), weights[kernels]), whole[np.ix_(some[:20], some)], atol=1e-10)
    assert part._columns.nbytes <= 8 * 37 * 3 * 5


def test_sparse_whole_numbers_are_as_far_apart_as_dense_ones(rng):
    X = np.where(rng.random((700, 40)) < 0.15, rng.integers(-3, 4, size=(700, 40)), 0).astype(np.float32)
    exact = ((X[:9, None].astype(float) - X[None]) ** 2).sum(axis=2)
    places = vector._Places(csr_matrix(X))
    assert not places.sparse and places.whole
    assert_array_equal(places.distances(csr_matrix(X[:9])), exact)
    assert places.across is not None  # this way it went
    halves = 0.5 * X[:9].astype(float)
    assert_allclose(places.distances(csr_matrix(halves)), ((halves[:, None] - X[None]) ** 2).sum(axis=2), rtol=1e-5)
    assert places.distances(csr_matrix(X[:0])).shape == (0, 700)


def test_problems_on_threads_share_the_memory(wdbc, monkeypatch):
    seen, among = [], CachedGram.among
    monkeypatch.setattr(CachedGram, "among", lambda gram, *rest: seen.append(gram.own_memory) or among(gram, *rest))
    X, y = wdbc[0][:150], np.arange(150) % 3
    for n_jobs, share in ((1, 1), (2, 2), (9, 3)):
        kw.MKLClassifier("rbf", memory=60_000, n_jobs=n_jobs, tol=1e-2, solver="sqp").fit(X, y)
        assert set(seen) == {60_000 / share}
        seen.clear()


# -- through the estimator --


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


def machine(**params):
    return kw.MKLClassifier(K.rbf(gamma=[0.01, 0.1]) + K.linear(on="each"), **params)


@pytest.mark.parametrize("normalize", ["trace", "diagonal", "center", None])
@pytest.mark.parametrize("penalty", ["l1", penalties.Lp(2.0)], ids=str)
def test_a_fit_without_room_for_the_kernels(wdbc, penalty, normalize):
    X, y = wdbc
    if normalize == "diagonal":
        X = X + 0.01  # no sample is zero in any column
    plain = machine(penalty=penalty, normalize=normalize, tol=1e-5).fit(X, y)
    small = machine(penalty=penalty, normalize=normalize, tol=1e-5, memory=2e5).fit(X, y)
    assert plain.storage_.startswith("dense float64")
    assert small.storage_ == "columns on demand, float32, at most 0.2 MiB of 4.9 MiB kept"
    assert "columns on demand" in small.summary()
    assert small.objective_ == pytest.approx(plain.objective_, rel=3e-5)
    assert_allclose(small.kernel_scales_, plain.kernel_scales_, rtol=1e-10)
    assert_allclose(small.decision_function(X), plain.decision_function(X), atol=0.03)
    assert 0 <= small.history_.hit_rate[-1] < 1
    assert np.isnan(plain.history_.hit_rate[-1])


def test_float32_and_sparse_samples(wdbc):
    X, y = wdbc
    dense = machine(tol=1e-4, memory=2e5).fit(X, y)
    for form in (csr_matrix(X), X.astype(np.float32)):
        other = machine(tol=1e-4, memory=2e5).fit(form, y)
        assert "on demand" in other.storage_
        assert other.objective_ == pytest.approx(dense.objective_, rel=2e-4)
        assert other.score(form, y) == pytest.approx(dense.score(X, y), abs=0.01)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes_share_the_columns_on_threads(multiclass):
    X, y = load_iris(return_X_y=True)
    bank = K.rbf(gamma=[0.1, 1.0]) + K.linear()
    plain = kw.MKLClassifier(bank, multiclass=multiclass, tol=1e-4).fit(X, y)
    for n_jobs in (None, 2):
        small = kw.MKLClassifier(bank, multiclass=multiclass, tol=1e-4, memory=60_000, n_jobs=n_jobs).fit(X, y)
        assert "on demand" in small.storage_
        assert_allclose(small.objective_, plain.objective_, rtol=2e-4)
        assert_array_equal(small.predict(X), plain.predict(X))


def test_auto_leaves_room_on_the_machine(wdbc, monkeypatch):
    X, y = wdbc
    monkeypatch.setattr(memory, "available_memory", lambda: 1e6)
    assert machine().fit(X, y).storage_ == "columns on demand, float32, at most 0.5 MiB of 4.9 MiB kept"


def uneven(X, Z):
    return X[:, :1] @ Z[:, 1:2].T


def indefinite(X, Z):
    return -(X @ Z.T)


def infinite(X, Z):
    return np.where(X @ Z.T > 20.0, np.inf, 1.0)


@pytest.mark.parametrize(
    ("function", "params", "message"),
    [
        (uneven, {}, "uneven is not symmetric"),
        (uneven, {"psd": "trust"}, "uneven is not symmetric"),
        (indefinite, {}, "indefinite is not positive semidefinite"),
        (indefinite, {"psd": "clip"}, "or a larger memory= in bytes"),
        (infinite, {"psd": "trust"}, "infinite (gives|holds) NaN or infinity"),
    ],
)
def test_functions_are_looked_at_without_storing_them(wdbc, function, params, message):
    X, y = wdbc
    bank = [K.Callable(function, function.__name__), K.Linear()]
    with pytest.raises(ValueError, match=message):
        kw.MKLClassifier(bank, memory=1e5, **params).fit(X, y)


def test_zero_kernels_are_left_out(wdbc):
    X, y = wdbc
    X = np.hstack([X, np.zeros((len(X), 1))])
    with pytest.warns(UserWarning, match="get weight 0: linear on column 30"):
        small = kw.MKLClassifier(K.rbf(gamma=0.1) + K.linear(on=[30]), memory=1e5).fit(X, y)
    assert small.weights_[1] == 0
    assert small.kernel_scales_[1] == 0
