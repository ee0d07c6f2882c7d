"""Laws of approximations: what features must be, whatever makes them and wherever they lie."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone

from kernelweave import grams
from kernelweave import kernels as K
from kernelweave.arrays import is_foreign, to_host
from kernelweave.grams import Nystroem, PivotedCholesky, RandomFeatures, RecomputedGram, make_approximation
from kernelweave.grams import landmarks as marks
from kernelweave.grams import maps as maps_module
from registry import exported, spelled

N, D = 40, 4
BANK = [
    K.RBF(gamma=0.5),
    K.RBF(gamma=2.0),
    K.Linear(),
    K.Polynomial(degree=2, gamma=0.3),
    K.Cosine(),
    3.0 * K.RBF(gamma=1.0, on=(1, 3)),
    K.RBF(gamma=1.0) * K.Linear(on=(0,)) + K.Constant(0.5),
    K.Polynomial(degree=2).normalised(),
]
FAMILY = [K.RBF(gamma=0.5), K.RBF(gamma=2.0, on=(0, 1)), 2.0 * K.RBF(gamma=0.1), K.Laplacian(gamma=0.3)]
FULL = [Nystroem(rank=N), Nystroem(rank=None, tol=1e-12), PivotedCholesky(tol=1e-13), PivotedCholesky(rank=N, tol=None)]
SOME = [
    Nystroem(rank=6),
    Nystroem(rank=6, n_landmarks=15),
    Nystroem(rank=6, landmarks="kmeans"),
    Nystroem(rank=6, landmarks="leverage"),
    Nystroem(rank=None, tol=0.05),
    PivotedCholesky(rank=6, tol=None),
    PivotedCholesky(tol=0.05),
    RandomFeatures(rank=12),
]
each_some = pytest.mark.parametrize("approximation", SOME, ids=spelled)


def draw(n=N, seed=0):
    return np.random.default_rng(seed).normal(size=(n, D))


def resolved(kernels, X):
    return [one for kernel in kernels for one in kernel.resolve(X)]


def bank_of(approximation, X):
    return resolved(FAMILY if isinstance(approximation, RandomFeatures) else BANK, X)


def factorise(approximation, kernels, X, normalize=None, share=None, **options):
    share = np.full(X.shape[0], 1.0 / X.shape[0]) if share is None else share
    return approximation.factorise(kernels, X, share=share, normalize=normalize, random_state=0, **options)


def parts(gram):
    """Return the features of each kernel as plain float64 arrays."""
    V = to_host(gram.features).astype(float)
    return [V[:, s : s + r] for s, r in gram.segments()]


def small_pieces(monkeypatch):
    """Let every pass see many pieces of rows."""
    monkeypatch.setattr(maps_module, "CHUNK", 64)


# -- what features are --


@pytest.mark.parametrize("approximation", FULL, ids=spelled)
@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_full_rank_is_the_kernel_itself(approximation, make):
    X = draw()
    X[np.abs(X) < 0.3] = 0.0
    kernels = resolved(BANK, X)
    made = factorise(approximation, kernels, make(X))
    for kernel, V in zip(kernels, parts(made.gram), strict=True):
        assert_allclose(V @ V.T, kernel(X), rtol=0, atol=1e-8)
    assert_allclose(made.lost, 0.0, atol=1e-9)


@each_some
@pytest.mark.parametrize("normalize", [None, "trace", "center"])
def test_features_of_training_rows_are_those_of_new_rows(approximation, normalize, monkeypatch):
    small_pieces(monkeypatch)
    X = draw()
    made = factorise(approximation, bank_of(approximation, X), X, normalize)
    V = made.gram.features
    assert_allclose(made.maps.transform(X), V, rtol=0, atol=1e-8)
    assert_allclose(made.maps.transform(X[7:9]), V[7:9], rtol=0, atol=1e-8)


@each_some
def test_features_of_a_kernel_are_orthogonal_and_ordered(approximation):
    X = np.tile(draw(), (20, 1))
    made = factorise(approximation, bank_of(approximation, X), X, "trace")
    assert made.gram.columns < 0.8 * made.gram.shape[0]
    for V in parts(made.gram):
        G = V.T @ V
        assert_allclose(G, np.diag(np.diag(G)), rtol=0, atol=1e-12 * G.max())
        assert np.all(np.diff(np.diag(G)) <= 1e-12 * G.max())
        assert np.diag(G).min() > 0


@pytest.mark.parametrize("gamma", [1e-9, 1e-6, 1e-3, 0.1, 10.0])
@pytest.mark.parametrize("n", [12, 400])
def test_landmarks_give_the_kernel_as_they_see_it_whatever_its_condition(gamma, n):
    X, kernel = draw(n), K.RBF(gamma=gamma)
    Z = X[:10]
    V = parts(factorise(Nystroem(rank=10, landmarks=Z), [kernel], X).gram)[0]
    values, vectors = np.linalg.eigh(kernel(Z))
    told = values > 1e-10 * values[-1]
    seen = kernel(X, Z) @ vectors[:, told] / np.sqrt(values[told])
    assert_allclose(V @ V.T, seen @ seen.T, rtol=0, atol=1e-8)


@each_some
def test_pieces_of_rows_change_nothing(approximation, monkeypatch):
    X = draw()
    whole = factorise(approximation, bank_of(approximation, X), X, "center")
    small_pieces(monkeypatch)
    pieced = factorise(approximation, bank_of(approximation, X), X, "center")
    assert_array_equal(whole.gram.ranks, pieced.gram.ranks)
    for V, U in zip(parts(whole.gram), parts(pieced.gram), strict=True):
        assert_allclose(V @ V.T, U @ U.T, rtol=0, atol=1e-9)
    assert_allclose(whole.scales, pieced.scales, rtol=1e-9)
    assert_allclose(whole.lost, pieced.lost, atol=1e-9)


@pytest.mark.parametrize("approximation", SOME[:-1], ids=spelled)
def test_lost_is_the_missing_share_of_the_trace(approximation):
    X = draw()
    kernels = resolved(BANK, X)
    made = factorise(approximation, kernels, X)
    for kernel, V, lost in zip(kernels, parts(made.gram), made.lost, strict=True):
        assert_allclose(lost, 1.0 - np.sum(V**2) / np.trace(kernel(X)), atol=1e-10)
        remainder = kernel(X) - V @ V.T
        assert np.linalg.eigvalsh(remainder).min() >= -1e-8


def test_nystroem_is_the_textbook_formula():
    X, Z = draw(), draw(7, seed=1)
    kernel = K.RBF(gamma=0.4)
    (V,) = parts(factorise(Nystroem(rank=7, landmarks=Z), resolved([kernel], X), X).gram)
    assert_allclose(V @ V.T, kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X)), rtol=0, atol=1e-9)


def test_more_landmarks_lose_less():
    X = draw()
    kernels = resolved(BANK[:2] + BANK[5:6], X)
    losses = [factorise(Nystroem(rank=r, landmarks=X[:r]), kernels, X).lost for r in (2, 5, 10, 20)]
    assert np.all(np.diff(losses, axis=0) < 0)
    losses = [factorise(PivotedCholesky(rank=r, tol=None), kernels, X).lost for r in (2, 5, 10, 20)]
    assert np.all(np.diff(losses, axis=0) < 0)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "leverage"])
def test_a_tolerance_decides_the_rank(landmarks, monkeypatch):
    monkeypatch.setattr(grams.approximations, "FIRST", 5)
    X = draw(200)
    kernels = resolved(BANK[:4], X)
    tol = 0.02
    made = factorise(Nystroem(rank=None, landmarks=landmarks, tol=tol), kernels, X)
    for kernel, V, lost in zip(kernels, parts(made.gram), made.lost, strict=True):
        squares = np.sum(V**2, axis=0)
        trace = np.sum(kernel.diagonal(X))
        assert lost <= tol + 1e-12
        assert 1.0 - squares[:-1].sum() / trace > tol  # one feature less would not do
    held = factorise(Nystroem(rank=3, tol=tol), kernels, X)
    assert_array_equal(held.gram.ranks, np.minimum(made.gram.ranks, 3))


def test_a_tolerance_out_of_reach_is_refused(monkeypatch):
    monkeypatch.setattr(grams.approximations, "FIRST", 5)
    monkeypatch.setattr(grams.approximations, "MOST", 25)
    X = draw(200)
    kernels = resolved([K.Linear(), K.RBF(gamma=50.0)], X)
    with pytest.raises(ValueError, match=r"rbf\(gamma=50\) loses more than tol=0.01 of its trace at 20 landmarks"):
        factorise(Nystroem(rank=None, tol=0.01), kernels, X)
    made = factorise(Nystroem(rank=None, n_landmarks=10, tol=0.01), kernels, X)
    assert_array_equal(made.gram.ranks, [D, 10])
    assert made.lost[1] > 0.5  # said, since the landmarks were fixed


def test_cholesky_stops_at_its_tolerance():
    X = draw(100)
    kernels = resolved(BANK[:4], X)
    for tol in (0.2, 1e-2, 1e-4):
        made = factorise(PivotedCholesky(tol=tol), kernels, X)
        assert np.all(made.lost <= tol + 1e-12)
        for kernel, rank in zip(kernels, made.gram.ranks.tolist(), strict=True):
            fewer = PivotedCholesky(rank=rank - 1, tol=None)
            assert rank == 1 or factorise(fewer, [kernel], X).lost[0] > tol


def test_cholesky_picks_the_worst_represented():
    X, kernel = draw(), K.RBF(gamma=0.5)
    G = kernel(X)
    pivots = marks.greedy_pivots(kernel, X, 6, None)
    for j in range(1, 6):
        P = pivots[:j]
        left = np.diag(G - G[:, P] @ np.linalg.solve(G[np.ix_(P, P)], G[P]))
        assert left[pivots[j]] >= left.max() - 1e-10


def test_a_kernel_has_no_more_features_than_its_rank():
    X = draw()
    kernels = resolved([K.Linear(), K.Linear(on=(2,)), K.Constant(), K.RBF(gamma=1.0)], X)
    for approximation in (Nystroem(rank=10), PivotedCholesky(rank=10, tol=None)):
        assert_array_equal(factorise(approximation, kernels, X).gram.ranks, [D, 1, 1, 10])


# -- random features --


def test_random_features_converge():
    X = draw(60)
    kernels = resolved(FAMILY, X)
    exact = [kernel(X) for kernel in kernels]
    errors = []
    for rank in (50, 200, 800):
        made = factorise(RandomFeatures(rank=rank), kernels, X)
        rest = [V @ V.T - G for V, G in zip(parts(made.gram), exact, strict=True)]
        errors.append([np.linalg.norm(R) / np.linalg.norm(G) for R, G in zip(rest, exact, strict=True)])
        assert_allclose(made.lost, errors[-1], rtol=1e-8)
    errors = np.array(errors)
    assert np.all(errors[-1] < 0.15)
    assert np.all(np.diff(errors, axis=0) < 0)
    assert np.all(np.abs(np.log(errors[0] / errors[-1]) - np.log(4.0)) < 0.5)  # sixteen times the features


def test_random_features_have_the_kernels_diagonal():
    X = draw()
    kernels = resolved(FAMILY + [K.RBF(gamma=0.5).normalised(), (3.0 * K.Laplacian()).normalised()], X)
    made = factorise(RandomFeatures(rank=40), kernels, X)
    for kernel, V in zip(kernels, parts(made.gram), strict=True):
        assert_allclose(np.sum(V**2, axis=1), kernel.diagonal(X), rtol=1e-10)


def test_random_features_on_sparse_rows():
    X = draw()
    X[np.abs(X) < 0.5] = 0.0
    kernels = resolved(FAMILY, X)
    dense, sparse = (factorise(RandomFeatures(rank=20), kernels, make(X)) for make in (np.asarray, csr_array))
    assert_allclose(sparse.lost, dense.lost, rtol=1e-8)
    for V, U in zip(parts(dense.gram), parts(sparse.gram), strict=True):
        assert_allclose(V @ V.T, U @ U.T, rtol=0, atol=1e-10)


@pytest.mark.parametrize("approximation", SOME, ids=spelled)
def test_sparse_rows_all_the_way(approximation, monkeypatch):
    small_pieces(monkeypatch)
    X = draw()
    X[np.abs(X) < 0.5] = 0.0
    sparse = csr_array(X)
    made = factorise(approximation, bank_of(approximation, X), sparse, "trace")
    features = made.maps.transform(sparse)
    assert_allclose(features, made.gram.features, rtol=0, atol=1e-8)
    z = np.random.default_rng(3).normal(size=(features.shape[1], 1))
    assert_allclose(made.maps.predictor(z).decide(sparse[3:8]), features[3:8] @ z, rtol=0, atol=1e-8)


# -- scales --


@pytest.mark.parametrize("approximation", FULL[:3:2], ids=spelled)
@pytest.mark.parametrize("normalize", [None, "diagonal", "trace", "center"])
def test_scales_are_those_of_the_kernels_themselves(approximation, normalize):
    X = draw()
    share = np.random.default_rng(1).uniform(0.5, 2.0, N)
    share /= share.sum()
    bank = BANK + [K.Callable(lambda X, Z: np.zeros((len(X), len(Z))), "nothing", psd=True), K.Constant(2.0)]
    kernels = resolved(bank, X)
    made = factorise(approximation, kernels, X, normalize, share)
    matrices = [kernel(X) for kernel in kernels]
    mean = np.array([share @ np.diag(G) for G in matrices])
    grand = np.array([share @ G @ share for G in matrices])
    sizes = {None: np.sign(mean), "diagonal": np.sign(mean), "trace": mean, "center": mean - grand}[normalize]
    alive = sizes > 1e-12
    assert_array_equal(made.scales > 0, alive)
    assert_array_equal(made.kept, np.flatnonzero(alive))
    assert_allclose(made.scales[alive], 1.0 / sizes[alive], rtol=1e-7)
    assert made.lost[len(BANK)] == 0.0
    for k, V in zip(made.kept, parts(made.gram), strict=True):
        assert_allclose(V @ V.T, made.scales[k] * matrices[k], rtol=0, atol=1e-6)


def test_trace_is_that_of_the_exact_kernel_and_center_of_what_is_left():
    X = draw()
    share = np.random.default_rng(1).uniform(0.5, 2.0, N)
    share /= share.sum()
    kernels = resolved(BANK[:2], X)
    made = factorise(Nystroem(rank=4), kernels, X, "center", share)
    for kernel, scale, V in zip(kernels, made.scales, parts(made.gram), strict=True):
        grand = np.sum((share @ V) ** 2) / scale
        assert_allclose(scale * (share @ kernel.diagonal(X) - grand), 1.0, rtol=1e-9)
    assert_allclose(factorise(Nystroem(rank=4), kernels, X, "trace", share).scales, 1.0, rtol=1e-12)


@pytest.mark.parametrize("approximation", [Nystroem(rank=100), RandomFeatures(rank=6)], ids=spelled)
@pytest.mark.parametrize("normalize", ["trace", "center"])
def test_weights_count_as_repetition(approximation, normalize):
    X, weight = draw(), np.random.default_rng(1).integers(1, 4, N)
    kernels = resolved(FAMILY, X)
    weighted = factorise(approximation, kernels, X, normalize, weight / weight.sum())
    repeated = factorise(approximation, kernels, np.repeat(X, weight, axis=0), normalize)
    assert_allclose(weighted.scales, repeated.scales, rtol=1e-7)
    features, again = weighted.maps.transform(X), repeated.maps.transform(X)
    assert_allclose(features @ features.T, again @ again.T, rtol=0, atol=1e-7)


def test_all_kernels_zero_leaves_nothing():
    X = np.zeros((5, 2))
    made = factorise(Nystroem(rank=3), resolved([K.Linear()], X), X, "trace")
    assert made.kept.size == 0
    assert made.gram.features.shape == (5, 0)
    assert_array_equal(made.scales, [0.0])


# -- prediction --


@each_some
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_predictor_is_linear_in_the_features(approximation, shape, monkeypatch):
    small_pieces(monkeypatch)
    X, new = draw(), draw(17, seed=2)
    made = factorise(approximation, bank_of(approximation, X), X, "trace")
    z = np.random.default_rng(3).normal(size=(made.gram.features.shape[1], *shape))
    z[: made.gram.ranks[0]] = 0.0
    predictor = made.maps.predictor(z)
    values = predictor.decide(new)
    assert values.shape == (17, *shape)
    assert_allclose(values, made.maps.transform(new) @ z, rtol=0, atol=1e-8)
    assert predictor.active == tuple(range(1, made.kept.size))
    twin = pickle.loads(pickle.dumps(predictor))
    assert_array_equal(twin.decide(new), values)


def test_predictor_holds_only_what_has_coefficients():
    X = draw()
    kernels = resolved(BANK, X)
    made = factorise(Nystroem(rank=6), kernels, X)
    z = np.zeros((made.gram.features.shape[1], 2))
    nothing = made.maps.predictor(z)
    assert nothing.sources == nothing.coefs == ()
    assert_array_equal(nothing.decide(X), np.zeros((N, 2)))
    z[made.gram.starts[3]] = 1.0
    (source,) = made.maps.predictor(z).sources
    assert source.kernels == (kernels[3],)
    assert source.positions == (0,)


@pytest.mark.parametrize("approximation", [Nystroem(rank=8), Nystroem(rank=8, landmarks="kmeans")], ids=spelled)
def test_one_family_shares_its_distances(approximation, monkeypatch):
    X = draw()
    kernels = resolved(K.rbf(gamma=[0.1, 0.5, 1.0, 3.0]) + [2.0 * K.RBF(gamma=0.2)], X)
    calls = []
    original = K.RBF.prepare
    monkeypatch.setattr(K.RBF, "prepare", lambda self, *args: calls.append(args) or original(self, *args))
    made = factorise(approximation, kernels, X)
    assert len(calls) == 2  # landmarks with landmarks, samples with landmarks
    predictor = made.maps.predictor(np.ones((made.gram.features.shape[1], 1)))
    calls.clear()
    predictor.decide(X)
    assert len(calls) == 1


# -- precision, memory, libraries --


def test_features_of_single_precision():
    X = draw(300)
    kernels = resolved(BANK, X)
    double = factorise(Nystroem(rank=30), kernels, X, "trace")
    single = factorise(Nystroem(rank=30), kernels, X.astype(np.float32), "trace")
    assert single.gram.features.dtype == np.float32
    assert factorise(Nystroem(rank=30), kernels, X, dtype="float32").gram.features.dtype == np.float32
    assert_allclose(single.lost, double.lost, atol=1e-5)
    for V, U in zip(parts(double.gram), parts(single.gram), strict=True):
        assert_allclose(V @ V.T, U @ U.T, rtol=0, atol=2e-4)
    assert_allclose(single.maps.transform(X.astype(np.float32)), single.gram.features, rtol=0, atol=1e-3)


def test_peak_memory_is_near_the_features():
    X = draw(60_000).astype(np.float32)
    kernels = resolved(K.rbf(gamma=np.logspace(0, 1, 8)), X)
    tracemalloc.start()
    made = factorise(Nystroem(rank=50), kernels, X, "trace")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made.gram.features.shape == (60_000, 400)
    assert peak <= 1.3 * made.gram.features.nbytes


def test_features_that_do_not_fit_are_made_at_each_pass():
    X, beta = draw(), draw()[:, 0]
    kernels = resolved(BANK[:2], X)
    with pytest.raises(ValueError, match=r"features would take .*\(40 samples, .*float64.*rank=8 would fit"):
        factorise(PivotedCholesky(tol=1e-9), kernels, X, memory=40 * 8 * 17)  # whose pivots need them
    for approximation in (Nystroem(rank=20), RandomFeatures(rank=20)):
        made = factorise(approximation, kernels, X, memory=40 * 8 * 17)
        held = factorise(approximation, kernels, X)
        assert isinstance(made.gram, RecomputedGram)
        assert_allclose(made.gram.rmatvec(beta), held.gram.rmatvec(beta), atol=1e-9)
    assert factorise(Nystroem(rank=8), kernels, X, memory=40 * 8 * 17).gram.features.shape == (N, 16)


@each_some
def test_libraries_agree(approximation, xp, monkeypatch):
    X, new = draw(), draw(9, seed=2)
    kernels = bank_of(approximation, X)
    if getattr(approximation, "landmarks", None) == "kmeans":  # each has a clustering of its own
        approximation = clone(approximation).set_params(landmarks=draw(6, seed=4))
    expected = factorise(approximation, kernels, X, "center")
    small_pieces(monkeypatch)
    given, fresh = xp.asarray(X), xp.asarray(new)
    made = factorise(approximation, kernels, given, "center")
    assert type(made.gram.features) is type(given)
    assert_allclose(made.lost, expected.lost, atol=1e-8)
    assert_allclose(made.scales, expected.scales, rtol=1e-8)
    for V, U in zip(parts(made.gram), parts(expected.gram), strict=True):
        assert_allclose(V @ V.T, U @ U.T, rtol=0, atol=1e-8)
    features = made.maps.transform(fresh)
    assert type(features) is type(given)
    assert_allclose(to_host(made.maps.transform(given)), to_host(made.gram.features), rtol=0, atol=1e-8)
    z = xp.asarray(np.random.default_rng(3).normal(size=(features.shape[1], 2)))
    values = made.maps.predictor(z).decide(fresh)
    assert type(values) is type(given)
    assert_allclose(to_host(values), to_host(features @ z), rtol=0, atol=1e-8)


def test_clusters_in_any_library(xp):
    centres = 10.0 * np.eye(D)
    X = np.repeat(centres, 10, axis=0) + 0.1 * draw()
    Z = marks.draw_landmarks("kmeans", D, [], xp.asarray(X), np.random.RandomState(3))
    assert is_foreign(Z) == (xp is not np)
    made = factorise(Nystroem(rank=8, landmarks="kmeans"), resolved([K.RBF(gamma=0.01)], X), xp.asarray(X))
    assert made.lost[0] < 1e-3


def test_leverage_finds_what_is_far_from_the_crowd(xp):
    far = 10.0 * np.concatenate([np.eye(D), -np.eye(D)])
    X = xp.asarray(np.concatenate([0.01 * draw(400), far]))
    rows = marks.draw_landmarks("leverage", 16, [K.RBF(gamma=0.5)], X, np.random.RandomState(0))
    kinds = np.abs(to_host(rows)).max(axis=1) > 5.0
    assert 6 <= np.sum(kinds) < 16  # an even draw would bring none or one


def test_many_samples_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(marks, "CANDIDATES", 30)
    X = draw(1000)
    for landmarks in ("kmeans", "leverage"):
        made = factorise(Nystroem(rank=5, landmarks=landmarks), resolved(BANK[:1], X), X)
        assert made.gram.features.shape == (1000, 5)


def test_a_bar_is_shown_if_asked_for(capsys):
    X = draw()
    for progress in (False, True):
        factorise(Nystroem(rank=5), resolved(BANK[:1], X), X, progress=progress)
        assert ("features" in capsys.readouterr().err) is progress


# -- names and refusals --


def test_names():
    for name, kind in [("nystroem", Nystroem), ("cholesky", PivotedCholesky), ("random_features", RandomFeatures)]:
        assert type(make_approximation(name)) is kind
        assert kind.__name__ in exported(grams)
    given = Nystroem(rank=3)
    assert make_approximation(given) is given
    assert repr(clone(given)) == "Nystroem(rank=3)"


@pytest.mark.parametrize("spec", ["nystrom", 3, Nystroem])
def test_unknown_names_are_refused(spec):
    known = r"approximation=.* is not known: use 'cholesky', 'explicit', 'nystroem', .*rank=200"
    with pytest.raises(ValueError, match=known):
        make_approximation(spec)


@pytest.mark.parametrize(
    ("approximation", "message"),
    [
        (Nystroem(rank=0), "rank of Nystroem must be a whole number from 1 on; got 0"),
        (Nystroem(rank=2.5), "rank of Nystroem must be a whole number"),
        (Nystroem(rank=None), "Nystroem needs a rank or a tol: both are None"),
        (Nystroem(tol=1.5), "tol of Nystroem must lie between 0 and 1; got 1.5"),
        (Nystroem(n_landmarks=0), "n_landmarks of Nystroem must be a whole number from 1 on; got 0"),
        (Nystroem(landmarks="random"), "landmarks='random' is not known: use 'uniform', 'kmeans', 'leverage', or an"),
        (Nystroem(landmarks=np.ones((3, 2))), r"landmarks must have shape \(p, 4\), as X has columns; got \(3, 2\)"),
        (PivotedCholesky(tol=None), "PivotedCholesky needs a rank or a tol"),
        (PivotedCholesky(tol="small"), "tol of PivotedCholesky must lie between 0 and 1; got 'small'"),
        (RandomFeatures(rank=None), "rank of RandomFeatures must be even"),
        (RandomFeatures(rank=7), "rank of RandomFeatures must be even, for cosines and sines; got 7"),
    ],
    ids=spelled,
)
def test_refused_parameters(approximation, message):
    X = draw()
    with pytest.raises(ValueError, match=message):
        factorise(approximation, resolved([K.RBF(gamma=1.0)], X), X)


@pytest.mark.parametrize(
    "kernel", [K.Linear(), K.RBF(gamma=1.0) * K.RBF(gamma=1.0, on=0), 2.0 * K.Polynomial()], ids=spelled
)
def test_random_features_are_refused_by_name(kernel):
    X = draw()
    (kernel,) = kernel.resolve(X)
    with pytest.raises(ValueError, match=r"(linear|rbf.*|polynomial.*) has no random Fourier features, only rbf and"):
        factorise(RandomFeatures(), [kernel], X)


@pytest.mark.parametrize("approximation", [Nystroem(rank=5), PivotedCholesky(rank=5)], ids=spelled)
def test_kernels_that_overflow_are_refused_by_name(approximation):
    X = 1e120 * draw()
    with pytest.raises(ValueError, match=r"polynomial\(degree=3\) gives NaN or infinity on X: scale X"):
        factorise(approximation, resolved([K.RBF(gamma=1e-240), K.Polynomial()], X), X)
