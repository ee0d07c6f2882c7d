"""Weights learned before the machine: equal to their formulas, on every way of holding kernels."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.grams import DenseGram, LowRankGram
from kernelweave.problem import Status
from kernelweave.weightings import Alignment, CentredAlignment, EasyMKL, Weighting, make_mixing
from registry import GRAMS, exported, factored, names

WEIGHTINGS = [
    Alignment("ratio"),
    Alignment("conic"),
    Alignment("convex"),
    CentredAlignment("conic"),
    CentredAlignment("linear"),
    EasyMKL(tol=1e-10),
    EasyMKL(lam=0.6, tol=1e-10),
    EasyMKL(lam=1.0),
]
ids = [str(weighting) for weighting in WEIGHTINGS]


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:90], 2.0 * y[:90] - 1.0


@pytest.fixture(scope="module")
def bank():
    return K.rbf(gamma=[0.01, 0.1, 1.0]) + K.linear(on=[0, 1]) + K.linear(on=[2]) + K.polynomial(degree=2)


@pytest.fixture(scope="module")
def stack(data, bank):
    made = np.stack([kernel(data[0]) for kernel in bank], axis=2)
    return made / np.einsum("iik->k", made) * len(made)


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(0).integers(1, 4, 90)


def centred(matrix):
    H = np.eye(len(matrix)) - 1.0 / len(matrix)
    return H @ matrix @ H


def facts(stack, y, centre=False):
    """Products of all pairs of kernels, and of each with yy'."""
    matrices = np.moveaxis(stack, 2, 0)
    matrices = np.array([centred(matrix) if centre else matrix for matrix in matrices])
    return np.einsum("aij,bij->ab", matrices, matrices), np.einsum("aij,i,j->a", matrices, y, y)


def minimise(objective, constraints):
    cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL", tol_gap_rel=1e-12, tol_gap_abs=1e-12)


def quadratic_optimum(M, a, simplex):
    """Least v'Mv - 2v'a over v from zero on, by Clarabel, in units that suit it."""
    v, size = cp.Variable(len(a), nonneg=True), M.max()
    root = np.linalg.cholesky(M / size)
    minimise(cp.sum_squares(root.T @ v) - 2 * (a / size) @ v, [cp.sum(v) == 1] if simplex else [])
    return v.value


def easymkl_optimum(stack, y, lam):
    """Weights of EasyMKL from its quadratic programme as printed, by Clarabel."""
    g, K_sum = cp.Variable(len(y), nonneg=True), stack.sum(axis=2)
    root = np.linalg.cholesky((1 - lam) * np.outer(y, y) * K_sum + lam * np.eye(len(y)))
    minimise(cp.sum_squares(root.T @ g), [cp.sum(g[y > 0]) == 1, cp.sum(g[y < 0]) == 1])
    q = np.einsum("i,ijk,j->k", g.value * y, stack, g.value * y)
    return q / q.sum()


# --- formulas -----------------------------------------------------------------------


def test_ratio_is_its_formula(stack, data):
    M, a = facts(stack, data[1])
    alignment = a / (np.sqrt(np.diagonal(M)) * len(stack))
    assert_allclose(Alignment("ratio").weights(DenseGram(stack), data[1]), alignment / alignment.sum(), rtol=1e-12)


def test_conic_is_the_most_aligned_sum(stack, data):
    M, a = facts(stack, data[1])
    v = quadratic_optimum(M, a, simplex=False)
    ours = Alignment("conic").weights(DenseGram(stack), data[1])
    assert_allclose(ours, v / v.sum(), atol=1e-6)
    assert ours.sum() == pytest.approx(1.0) and np.any(ours == 0)
    assert a @ ours / np.sqrt(ours @ M @ ours) >= (1 - 1e-12) * (a @ v / np.sqrt(v @ M @ v))


def test_convex_is_the_nearest_sum(stack, data):
    M, a = facts(stack, data[1])
    v = quadratic_optimum(M, a, simplex=True)
    ours = Alignment("convex").weights(DenseGram(stack), data[1])
    assert_allclose(ours, v, atol=1e-6)
    assert ours @ M @ ours - 2 * a @ ours <= (v @ M @ v - 2 * a @ v) + 1e-9 * M.max()


def test_convex_of_the_ideal_kernel_alone():
    y = np.array([-1.0, 1.0, 1.0])
    ideal = np.repeat(np.outer(y, y)[:, :, None], 2, axis=2)
    assert_allclose(Alignment("convex").weights(DenseGram(ideal), y).sum(), 1.0)


def test_centred_linear_is_its_formula(stack, data):
    M, a = facts(stack, data[1], centre=True)
    v = np.linalg.solve(M, a)
    ours = CentredAlignment("linear").weights(DenseGram(stack), data[1])
    assert_allclose(ours, v / np.linalg.norm(v), rtol=1e-7)
    assert np.any(ours < 0)


def test_centred_conic_is_its_optimum(stack, data):
    M, a = facts(stack, data[1], centre=True)
    v = quadratic_optimum(M, a, simplex=False)
    ours = CentredAlignment("conic").weights(DenseGram(stack), data[1])
    assert_allclose(ours, v / np.linalg.norm(v), atol=1e-6)
    assert np.linalg.norm(ours) == pytest.approx(1.0)


@pytest.mark.parametrize("lam", [0.01, 0.1, 0.6, 1.0])
def test_easymkl_is_its_optimum(stack, data, lam):
    ours = EasyMKL(lam).weights(DenseGram(stack), data[1])
    assert_allclose(ours, easymkl_optimum(stack, data[1], lam), atol=1e-6)


def test_constant_kernels_get_no_weight_once_centred(stack, data):
    more = np.concatenate([stack, np.full((90, 90, 1), 0.3)], axis=2)
    for kind in ("conic", "linear"):
        ours = CentredAlignment(kind).weights(DenseGram(more), data[1])
        assert ours[-1] == 0
        assert_allclose(ours[:-1], CentredAlignment(kind).weights(DenseGram(stack), data[1]), rtol=1e-6)


# --- laws -----------------------------------------------------------------------


def test_every_weighting_is_listed():
    assert exported(kw.weightings) - {"Weighting"} == names(WEIGHTINGS)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=ids)
@pytest.mark.parametrize("kind", GRAMS, ids=lambda kind: kind.__name__)
def test_however_kernels_are_held(weighting, kind, stack, data, counts):
    scale = np.linspace(0.5, 2.0, stack.shape[2])
    expected = weighting.weights(DenseGram(stack * scale), data[1], counts)
    assert_allclose(weighting.weights(kind(stack, scale), data[1], counts), expected, atol=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=ids)
def test_wherever_features_lie(weighting, stack, data, counts, xp):
    theirs = factored(stack, None)
    ours = LowRankGram(xp.asarray(theirs.features), theirs.ranks)
    expected = weighting.weights(theirs, data[1], counts)
    assert_allclose(weighting.weights(ours, xp.asarray(data[1]), counts), expected, atol=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=ids)
def test_order_of_kernels_is_that_of_weights(weighting, stack, data):
    order = np.array([3, 0, 5, 1, 4, 2])
    expected = weighting.weights(DenseGram(stack), data[1])[order]
    assert_allclose(weighting.weights(DenseGram(stack[:, :, order]), data[1]), expected, atol=1e-8)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=ids)
def test_order_of_samples_and_names_of_classes_do_not_matter(weighting, stack, data):
    order = np.random.default_rng(1).permutation(90)
    expected = weighting.weights(DenseGram(stack), data[1])
    found = weighting.weights(DenseGram(stack[np.ix_(order, order)]), -data[1][order])
    assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("weighting", WEIGHTINGS, ids=ids)
def test_a_weight_of_two_is_the_sample_twice(weighting, stack, data, counts):
    rows = np.repeat(np.arange(90), counts)
    expected = weighting.weights(DenseGram(stack[np.ix_(rows, rows)]), data[1][rows])
    assert_allclose(weighting.weights(DenseGram(stack), data[1], counts), expected, atol=1e-7)


def test_scaling_a_kernel(stack, data):
    """Ratios do not see the size of a kernel, and weights of optimal sums make up for it."""
    scale, y = np.array([1.0, 5.0, 0.2, 1.0, 1.0, 3.0]), data[1]
    plain, scaled = DenseGram(stack), DenseGram(stack * scale)
    assert_allclose(Alignment().weights(scaled, y), Alignment().weights(plain, y), rtol=1e-12)
    for weighting in (Alignment("conic"), CentredAlignment("conic"), CentredAlignment("linear")):
        before, after = weighting.weights(plain, y), weighting.weights(scaled, y) * scale
        assert_allclose(after / np.linalg.norm(after), before / np.linalg.norm(before), atol=1e-9)
    twice = EasyMKL(lam=2 / 3, tol=1e-10).weights(DenseGram(2 * stack), y)  # (1 - lam) K to lam I as for lam = 1/2
    assert_allclose(twice, EasyMKL(lam=0.5, tol=1e-10).weights(plain, y), atol=1e-7)


# --- in an estimator -----------------------------------------------------------------------


@pytest.mark.parametrize("weighting", [w for w in WEIGHTINGS if w.get_params().get("kind") != "linear"], ids=str)
def test_machine_is_svc_on_the_weighted_sum(weighting, stack, data):
    model = kw.MKLClassifier("precomputed", penalty=weighting, C=2.0, tol=1e-8).fit(stack, data[1])
    weights = weighting.weights(DenseGram(stack), data[1])
    assert_allclose(model.weights_, weights, rtol=1e-9)
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(stack @ weights, data[1])
    assert_allclose(model.decision_function(stack), theirs.decision_function(stack @ weights), atol=1e-4)
    assert model.dual_gap_ <= 1e-8


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_each_binary_problem_has_weights_of_its_own(multiclass):
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifier(penalty="centred-alignment", multiclass=multiclass).fit(X, y)
    assert model.weights_.shape == (3, 10)
    assert_allclose(np.linalg.norm(model.weights_, axis=1), 1.0)
    rows = np.flatnonzero(y != 2) if multiclass == "ovo" else np.arange(150)
    signs = np.where(y[rows] == 1, 1.0, -1.0) if multiclass == "ovo" else np.where(y == 0, 1.0, -1.0)
    matrices = np.stack([k.resolve(X)[0](X) for k in K.default_bank()], axis=2) * model.kernel_scales_
    expected = CentredAlignment().weights(DenseGram(matrices[np.ix_(rows, rows)]), signs)
    assert_allclose(model.weights_[0], expected, atol=1e-8)


def test_the_same_from_samples_stacks_and_columns_on_demand(data, bank, stack):
    X, y = data
    penalty = EasyMKL(tol=1e-8)
    direct = kw.MKLClassifier(bank, penalty=penalty).fit(X, y)
    for model in (
        kw.MKLClassifier("precomputed", penalty=penalty).fit(stack, y),
        kw.MKLClassifier(bank, penalty=penalty, memory=4e4).fit(X, y),
        kw.MKLClassifier(bank, penalty=penalty, approximation=kw.Nystroem(rank=90)).fit(X, y),
    ):
        assert_allclose(model.weights_, direct.weights_, atol=1e-5)
    assert "EasyMKL" in kw.MKLClassifier(bank, penalty=EasyMKL(0.3)).fit(X, y).summary()


def test_zero_kernels_are_left_out_first(data, bank):
    def nothing(A, B):
        return np.zeros((len(A), len(B)))

    with pytest.warns(UserWarning, match="get weight 0"):
        model = kw.MKLClassifier([nothing, *bank], penalty="alignment").fit(*data)
    assert model.weights_[0] == 0
    assert_allclose(model.weights_[1:], kw.MKLClassifier(bank, penalty="alignment").fit(*data).weights_)


def test_along_a_path_weights_stay(data, bank):
    along = kw.path(kw.MKLClassifier(bank, penalty="alignment"), *data, C=[0.1, 10.0])
    assert_allclose(along.weights[0], along.weights[1])
    assert along.gaps.max() <= 1e-3


# --- weights below zero -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def signed(stack, data):
    return CentredAlignment("linear").weights(DenseGram(stack), data[1])


def test_indefinite_sums_are_refused_or_clipped(stack, data, signed):
    mixed = stack @ signed
    mixed = mixed - mixed.mean(axis=0) - mixed.mean(axis=1, keepdims=True) + mixed.mean()
    values, vectors = np.linalg.eigh(mixed)
    assert values[0] < -1e-3 * values[-1]
    model = kw.MKLClassifier("precomputed", penalty=CentredAlignment("linear"), normalize=None)
    with pytest.raises(ValueError, match=r"not positive semidefinite.*psd='clip'.*'conic'"):
        model.fit(stack, data[1])
    model.set_params(psd="clip", tol=1e-8).fit(stack, data[1])
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.mean(np.diag(clipped))
    clipped /= size
    theirs = SVC(kernel="precomputed", tol=1e-9).fit(clipped, data[1])
    assert_allclose(model.decision_function(stack), theirs.decision_function(clipped), atol=1e-4)
    assert_allclose(model.weights_, signed / size, rtol=1e-6)
    assert model.dual_gap_ <= 1e-8
    assert all(f"kernel {k} " in model.summary() for k in np.flatnonzero(signed))


def test_clipped_sums_predict_new_samples_as_precomputed_ones(data, bank):
    X, y = data
    settings = {"penalty": CentredAlignment("linear"), "psd": "clip", "tol": 1e-8}
    matrices = np.stack([kernel(X) for kernel in bank], axis=2)
    direct = kw.MKLClassifier(bank, **settings).fit(X[:60], y[:60])
    ready = kw.MKLClassifier("precomputed", **settings).fit(matrices[:60, :60], y[:60])
    assert_allclose(direct.decision_function(X), ready.decision_function(matrices[:, :60]), rtol=1e-6, atol=1e-8)


def test_definite_sums_pass_the_check():
    """Two copies of orthogonal directions: a weight below zero, and a sum that is definite all the same."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) < 20, -1.0, 1.0)
    noise = rng.normal(size=(40, 3)) @ np.diag([1.0, 0.5, 0.2])
    ideal, part = np.outer(y, y) + noise @ noise.T, 0.5 * noise @ noise.T
    stack = np.stack([ideal, part], axis=2)
    model = kw.MKLClassifier("precomputed", penalty=CentredAlignment("linear"), normalize=None).fit(stack, y)
    assert model.weights_[1] < 0
    assert model.dual_gap_ <= 1e-3
    assert model.score(stack, y) == 1.0


def test_weights_that_cancel_leave_a_kernel_to_learn_with():
    """Kernels much alike, as in the default bank: their best sum is what little they differ in."""
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    model = kw.recipe("cabmkl-linear").fit(X, y)
    assert model.weights_.min() < 0
    assert model.score(X, y) > 0.95


def test_features_of_low_rank_cannot_be_clipped(data, bank):
    model = kw.MKLClassifier(bank, penalty=CentredAlignment("linear"), approximation=kw.Nystroem(rank=90))
    with pytest.raises(ValueError, match=r"approximation=None, or CentredAlignment\('conic'\)"):
        model.fit(*data)


# --- refusals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("penalty", "sentence"),
    [
        (Alignment("cubic"), "kind='cubic' is not known: choose one of 'ratio', 'conic', 'convex'"),
        (CentredAlignment("convex"), "choose one of 'conic', 'linear'"),
        (EasyMKL(lam=0.0), "lam must be a number above 0 and up to 1, got 0.0"),
        (EasyMKL(lam=1.5), "got 1.5"),
        (EasyMKL(tol=-1.0), "tol must be a number"),
        ("alignement", "to weigh kernels beforehand, one of alignment, centred-alignment, easymkl"),
    ],
    ids=str,
)
def test_refusals(penalty, sentence, data):
    with pytest.raises(ValueError, match=sentence):
        kw.MKLClassifier(penalty=penalty).fit(*data)


def test_kernels_that_tell_nothing_are_refused():
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    flat = DenseGram(np.ones((4, 4, 2)))
    for weighting in (Alignment(), CentredAlignment(), EasyMKL(lam=1.0)):
        with pytest.raises(ValueError, match="No kernel tells the two classes apart"):
            weighting.weights(flat, y)


def test_rough_weights_are_told(stack, data, monkeypatch):
    def stalled(*args, **settings):
        found = kw.solve(*args, **settings)
        apart = replace(found.certificate, lower=0.99 * found.certificate.lower)
        return replace(found, certificate=apart, status=Status.STALLED)

    monkeypatch.setattr("kernelweave.weightings.solve", stalled)
    with pytest.warns(ConvergenceWarning, match="weights of EasyMKL are known to a relative duality gap"):
        EasyMKL().weights(DenseGram(stack), data[1])


def test_base_class_says_nothing():
    with pytest.raises(NotImplementedError):
        Weighting().weights(None, None)
    assert isinstance(make_mixing("easymkl"), EasyMKL)
