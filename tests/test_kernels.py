"""Laws of kernels: every instance in KERNELS goes through all of them."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csc_array, csr_array, csr_matrix
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from kernelweave import kernels as K
from kernelweave.arrays import dtype_name, to_host
from registry import KERNELS, STRING_KERNELS, exported, minimum, names, spelled

PAIRWISE = [
    (K.Linear(), pairwise.linear_kernel, {}),
    (K.Polynomial(), pairwise.polynomial_kernel, {}),
    (
        K.Polynomial(degree=2, gamma=0.3, coef0=2),
        pairwise.polynomial_kernel,
        {"degree": 2, "gamma": 0.3, "coef0": 2},
    ),
    (K.Sigmoid(), pairwise.sigmoid_kernel, {}),
    (K.RBF(gamma=None), pairwise.rbf_kernel, {}),
    (K.RBF(gamma=0.3, factor=2), pairwise.rbf_kernel, {"gamma": 0.6}),
    (K.Laplacian(), pairwise.laplacian_kernel, {}),
    (K.Chi2(gamma=2), pairwise.chi2_kernel, {"gamma": 2.0}),
    (K.Cosine(), pairwise.cosine_similarity, {}),
    (K.Callable(pairwise.rbf_kernel), pairwise.rbf_kernel, {}),
]
N, D = 14, 5
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=spelled)
each_sparse = pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if k.accepts_sparse and not isinstance(k, K.Callable)], ids=spelled
)


def draw(n=N, seed=0, signed=False):
    return np.random.default_rng(seed).uniform(-1.0 if signed else 0.0, 1.0, (n, D))


def takes_negative(kernel):
    parts = getattr(kernel, "kernels", [kernel])
    return not any(isinstance(part, (K.Chi2, K.HistogramIntersection, K.Jaccard, K.Callable)) for part in parts)


def only(kernel, X, **options):
    (resolved,) = kernel.resolve(X, **options)
    return resolved


# -- laws --


@each_kernel
def test_symmetric_and_positive_semidefinite(kernel):
    G = kernel(draw(signed=takes_negative(kernel)))
    assert G.shape == (N, N)
    assert_allclose(G, G.T, rtol=1e-12, atol=1e-14)
    if kernel.psd:
        assert np.linalg.eigvalsh(G).min() >= -1e-10 * np.trace(G)


@each_kernel
def test_diagonal_is_the_diagonal_of_the_matrix(kernel):
    X = draw(signed=takes_negative(kernel))
    assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-12)
    resolved = only(kernel, X)
    block = X if resolved.on is None else X[:, list(resolved.on)]
    assert_allclose(K.Kernel.self_similarity(resolved, block), kernel.diagonal(X), rtol=1e-12)


@each_kernel
def test_rows_of_a_resolved_kernel_do_not_depend_on_their_company(kernel):
    X, Z = draw(), draw(6, seed=1)
    resolved = only(kernel, X)
    assert_allclose(resolved(Z, X)[2:3], resolved(Z[2:3], X), rtol=1e-10, atol=1e-14)
    assert_allclose(resolved(X, X.copy()), resolved(X), rtol=1e-7, atol=1e-12)
    assert_allclose(resolved(X, Z), resolved(Z, X).T, rtol=1e-10, atol=1e-14)
    assert_array_equal(resolved(X, X), resolved(X))


@each_kernel
def test_precision_is_that_of_X(kernel):
    X = draw()
    small = X.astype(np.float32)
    assert kernel(X).dtype == kernel.diagonal(X).dtype == np.float64
    assert kernel(small).dtype == kernel.diagonal(small).dtype == np.float32
    assert only(kernel, X)(small, X).dtype == np.float32
    assert only(kernel, X)(X, small).dtype == np.float64
    assert_allclose(kernel(small), kernel(X), rtol=1e-4, atol=1e-5)


@each_kernel
def test_input_is_untouched_and_output_is_the_callers(kernel):
    X = draw()
    X.setflags(write=False)
    first, second = kernel(X), kernel(X)
    first[:] = np.nan
    assert not np.isnan(second).any()
    assert not np.shares_memory(first, X)


@each_sparse
@pytest.mark.parametrize("make", [csr_matrix, csr_array, csc_array])
def test_sparse_equals_dense(kernel, make):
    X, Z = draw(), draw(6, seed=1)
    X[X < 0.4], Z[Z < 0.4] = 0.0, 0.0
    X[:, 0], Z[:, 0] = 0.5, 0.5
    resolved = only(kernel, make(X))
    assert resolved == only(kernel, X) or isinstance(kernel, K.RBF)
    for result, expected in [
        (resolved(make(X)), resolved(X)),
        (resolved(make(Z), make(X)), resolved(Z, X)),
        (resolved(Z, make(X)), resolved(Z, X)),
        (resolved.diagonal(make(X)), resolved.diagonal(X)),
    ]:
        assert isinstance(result, np.ndarray)
        assert_allclose(result, expected, rtol=1e-7, atol=1e-12)
    assert resolved(make(X).astype(np.float32)).dtype == np.float32


@each_kernel
def test_resolve_twice_changes_nothing(kernel):
    X = draw()
    resolved = only(kernel, X)
    again = only(resolved, draw(seed=5))
    assert again == resolved
    assert_array_equal(again(X), resolved(X))
    assert_allclose(kernel(X), resolved(X), rtol=1e-12)


@each_kernel
def test_a_kernel_is_a_value(kernel):
    X = draw()
    for original in (kernel, only(kernel, X)):
        (copied,) = clone([original], safe=False)
        for twin in (copied, pickle.loads(pickle.dumps(original))):
            assert twin == original
            assert hash(twin) == hash(original)
            assert twin.name == original.name
            assert_array_equal(twin(X), original(X))
    assert len(set(KERNELS)) == len(KERNELS)
    with pytest.raises(FrozenInstanceError):
        kernel.on = 0


@pytest.mark.parametrize("kernel", [k for k in KERNELS if not isinstance(k, K.Callable)], ids=spelled)
def test_repr_makes_the_kernel_again(kernel):
    assert eval(repr(kernel), vars(K)) == kernel


@pytest.mark.parametrize(("kernel", "formula", "options"), PAIRWISE, ids=spelled)
def test_equals_scikit_learn(kernel, formula, options):
    X, Z = draw(), draw(6, seed=1)
    assert_allclose(kernel(X), formula(X, **options), rtol=1e-12)
    assert_allclose(kernel(X, Z), formula(X, Z, **options), rtol=1e-12)


def test_histogram_intersection_is_the_sum_of_minima():
    X, Z = draw(), draw(6, seed=1)
    assert_allclose(K.HistogramIntersection()(X, Z), minimum(X, Z), rtol=1e-12)


@pytest.mark.parametrize("kernel", [K.RBF(), K.RBF(on=0), K.Laplacian(), K.Chi2()], ids=spelled)
def test_unit_diagonals_are_exact(kernel):
    X = 1e4 + draw()
    for Z in (None, X):
        assert_array_equal(np.diag(only(kernel, X)(X, Z)), np.ones(N))
    assert_array_equal(np.diag(kernel(X.astype(np.float32))), np.ones(N))
    assert only(kernel, X)(X).max() <= 1.0


def test_integers_and_lists_become_floats():
    X = [[1, 2], [3, 4]]
    assert K.Linear()(X).dtype == np.float64
    assert_array_equal(K.Polynomial(degree=2, gamma=1)(X), [[36, 144], [144, 676]])


# -- algebra --


def test_algebra():
    a, b, c, X = K.RBF(gamma=0.5), K.Linear(on=[0, 1]), K.Laplacian(), draw()
    assert_allclose((a + b + c)(X), a(X) + b(X) + c(X), rtol=1e-12)
    assert_allclose((a * b * c)(X), a(X) * b(X) * c(X), rtol=1e-12)
    assert_allclose((a * (b + c))(X), a(X) * b(X) + a(X) * c(X), rtol=1e-12)
    assert_allclose((2 * a)(X), 2 * a(X), rtol=1e-12)
    assert (a + b) + c == a + (b + c) == K.Sum([a, b, c])
    assert (a * b) * c == K.Product((a, b, c))
    assert 2 * a == a * 2.0 == np.float64(2) * a == K.Scaled(a, 2)
    assert type((np.float32(2) * a).scale) is float


def test_normalised_is_the_cosine():
    X = draw(signed=True)
    G = K.Linear().normalised()(X)
    assert_allclose(G, K.Cosine()(X), rtol=1e-12)
    assert_array_equal(np.diag(G), np.ones(N))
    k = only(K.Polynomial(degree=2).normalised(), X)
    inner, Z = K.Polynomial(degree=2), draw(4, seed=1)
    expected = inner(X, Z) / np.sqrt(np.outer(inner.diagonal(X), inner.diagonal(Z)))
    assert_allclose(k(X, Z), expected, rtol=1e-12)


def test_psd_is_unknown_only_where_it_is():
    assert K.Linear().psd is True
    for unknown in (K.Sigmoid(), K.Callable(minimum), K.Polynomial(coef0=-1.0)):
        for kernel in (
            unknown,
            unknown + K.Linear(),
            2 * unknown,
            unknown.normalised(),
            unknown * K.Linear(),
        ):
            assert kernel.psd is None


# -- gamma from the data --


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_scale_is_that_of_svc(scale):
    X, y = scale * draw(), np.arange(N) % 2
    gamma = SVC().fit(X, y)._gamma
    for kind in (K.RBF, K.Polynomial, K.Sigmoid):
        assert only(kind(gamma="scale"), X).gamma == pytest.approx(gamma, rel=1e-12)
        assert only(kind(gamma="scale"), csr_matrix(X)).gamma == pytest.approx(gamma, rel=1e-9)
    assert only(K.RBF(factor=4), X) == K.RBF(gamma=only(K.RBF(), X).gamma * 4)


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
def test_weights_count_as_repetition(make):
    X, w = draw(), np.random.default_rng(0).integers(0, 4, N)
    weighted = only(K.RBF(on=[1, 3]), make(X), sample_weight=w)
    repeated = only(K.RBF(on=[1, 3]), make(np.repeat(X, w, axis=0)))
    assert weighted.gamma == pytest.approx(repeated.gamma, rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_variance_means_one(value, dtype):
    for n in (6, 10, 100):  # the mean of equal numbers may differ from them by rounding
        assert only(K.RBF(on=0), np.full((n, 2), value, dtype=dtype)).gamma == 1.0


def test_gamma_of_some_columns_looks_at_those():
    X = draw() * [1, 10, 100, 1, 1]
    assert only(K.RBF(on=2), X).gamma == pytest.approx(1 / X[:, 2].var(), rel=1e-12)
    assert only(K.Laplacian(on=[0, 1]), X).gamma == 0.5
    product = only(K.RBF(on=1) * K.RBF(on=2), X)
    assert [k.gamma for k in product.kernels] == pytest.approx(
        [1 / X[:, 1].var(), 1 / X[:, 2].var()], rel=1e-12
    )


# -- columns --

NAMES = ["age", "height", "weight", "each", "city"]


@pytest.mark.parametrize(
    ("on", "columns"),
    [
        (None, None),
        (1, (1,)),
        (-1, (4,)),
        (np.int64(2), (2,)),
        ([0, -2], (0, 3)),
        (np.array([3, 1]), (3, 1)),
        (range(2), (0, 1)),
        (slice(1, 3), (1, 2)),
        (slice(None, None, 2), (0, 2, 4)),
        (slice("height", "each"), (1, 2, 3)),
        (slice("weight", None), (2, 3, 4)),
        ([True, False, False, True, False], (0, 3)),
        (np.array([False, True, False, False, False]), (1,)),
        ("age", (0,)),
        (["each"], (3,)),
        (["city", "age"], (4, 0)),
        (pd.Index(["city", "height"]), (4, 1)),
        (make_column_selector("eight$"), (1, 2)),
        (lambda frame: frame.columns == "age", (0,)),
        (lambda frame: slice("age", "height"), (0, 1)),
    ],
)
@pytest.mark.parametrize(
    "wrap", [K.Linear, lambda on: 2 * K.Linear(on=on), lambda on: K.Linear().on_columns(on)]
)
def test_columns(on, columns, wrap):
    X = draw()
    frame = pd.DataFrame(X, columns=NAMES)
    resolved = only(wrap(on=on), X, names=NAMES, frame=frame)
    assert resolved.on == columns
    assert resolved == only(wrap(on=on), X, frame=frame)
    block = X if columns is None else X[:, list(columns)]
    assert_allclose(resolved.diagonal(X), np.diag(resolved(X)), rtol=1e-12)
    assert_allclose(resolved(X) / resolved(X)[0, 0], block @ block.T / (block[0] @ block[0]), rtol=1e-12)
    hash(wrap(on=on))


def test_each_stands_for_one_kernel_per_column():
    X = draw()
    for kernel in (K.RBF(on="each"), 2 * K.RBF(on="each"), (K.RBF() + K.Linear()).on_columns("each")):
        resolved = kernel.resolve(X, names=NAMES)
        assert len({k.name for k in resolved}) == D
    sums = (K.RBF() + K.Linear()).on_columns("each").resolve(X)
    assert sums[3] == only(K.RBF(on=3) + K.Linear(on=3), X)
    assert (2 * K.Linear(on="each")).resolve(X)[3] == only(2 * K.Linear(on=3), X)


def test_columns_of_a_combination_are_for_the_parts_that_name_none():
    X = draw()
    kernel = (K.Linear() * K.Linear(on=0)).on_columns([1, 2])
    assert_allclose(kernel(X), K.Linear(on=[1, 2])(X) * K.Linear(on=0)(X), rtol=1e-12)
    assert only(2 * K.Linear(on=0), X).on_columns((1,)) == K.Scaled(K.Linear(), 2, on=[1])


def test_masks_and_positions_differ():
    assert K.Linear(on=[True, False]) != K.Linear(on=[1, 0])
    assert K.Linear(on=slice(1, 2)) == K.Linear(on=slice(1, 2)) != K.Linear(on=slice(1, 3))
    assert K.Linear() != K.Cosine()


# -- arrays of other libraries --


def overlap(X, Z):
    return X @ Z.T


FOREIGN = [k for k in KERNELS if k.accepts_foreign and not isinstance(k, K.Callable)] + [K.Callable(overlap)]
FOREIGN += [K.RBF(gamma=2.0, on=(3, 0)), K.Polynomial(degree=1), K.Cosine(on=[4]), K.RBF(on=2).normalised()]


@pytest.mark.parametrize("kernel", FOREIGN, ids=spelled)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_libraries_agree(kernel, dtype, xp):
    X, Z = draw(signed=True).astype(dtype), draw(6, seed=1, signed=True).astype(dtype)
    X[3] = Z[2] = 0.0 if isinstance(kernel, K.Cosine) else 0.25
    given, other = xp.asarray(X), xp.asarray(Z)
    ours, theirs = only(kernel, X), only(kernel, given)
    assert theirs.name == ours.name
    tolerance = {"float32": 1e-5, "float64": 1e-12}[dtype]
    for found, expected in [
        (theirs(given), ours(X)),
        (theirs(other, given), ours(Z, X)),
        (theirs.diagonal(given), ours.diagonal(X)),
        (K.Kernel.self_similarity(replace(ours, on=None), given), K.Kernel.self_similarity(replace(ours, on=None), X)),
        (kernel(given), kernel(X)),
    ]:
        assert type(found) is type(given)
        assert dtype_name(found) == dtype
        assert_allclose(to_host(found), expected, rtol=tolerance, atol=tolerance)
    assert_array_equal(to_host(given), X)


@pytest.mark.parametrize("kernel", [K.RBF(), K.RBF(on=0), K.Linear().normalised()], ids=spelled)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unit_diagonals_are_exact_in_any_library(kernel, dtype, xp):
    X = xp.asarray((1e4 + draw()).astype(dtype))
    assert_array_equal(np.diag(to_host(kernel(X))), np.ones(N))
    far, near = only(K.RBF(gamma=1.0), X), K.RBF(gamma=1.0)(to_host(X).astype(float))
    assert_allclose(to_host(far(X)), near, rtol={"float32": 1e-5, "float64": 1e-8}[dtype])


def test_integers_become_floats_in_any_library(xp):
    assert dtype_name(K.Linear()(xp.asarray([[1, 2], [3, 4]]))) == "float64"


@pytest.mark.parametrize("weight", [None, np.arange(N, dtype=float)])
def test_scale_in_any_library(weight, xp):
    X = draw()
    for kernel in (K.RBF(), K.RBF(on=[0, 3]), K.RBF(on=1)):
        expected = only(kernel, X, sample_weight=weight).gamma
        given = None if weight is None else xp.asarray(weight)
        for sample_weight in (weight, given):
            found = only(kernel, xp.asarray(X), sample_weight=sample_weight).gamma
            assert type(found) is float
            assert found == pytest.approx(expected, rel=1e-12)
    for value in (0.0, 0.1, 1e6):
        assert only(K.RBF(), xp.asarray(np.full((7, 2), value, dtype=np.float32))).gamma == 1.0


def test_evaluate_in_any_library(xp):
    X = xp.asarray(draw())
    kernels = [resolved for kernel in FOREIGN for resolved in kernel.resolve(X)]
    found = {k: to_host(xp.asarray(matrix, copy=True)) for k, matrix in K.evaluate(kernels, X)}
    for k, matrix in K.evaluate(kernels, X):
        assert_array_equal(to_host(matrix), found[k])
        matrix *= 0.0  # must be nobody else's memory


@pytest.mark.parametrize(
    "kernel",
    [K.Laplacian(), 2.0 * K.Chi2(), K.HistogramIntersection() + K.Linear(), K.Laplacian() * K.RBF()],
    ids=spelled,
)
def test_refused_in_other_libraries(kernel, xp):
    X = xp.asarray(draw())
    resolved = only(kernel, X)
    if xp is np:
        assert resolved(X).shape == (N, N)
        return
    for refused in (resolved, resolved.diagonal):
        with pytest.raises(TypeError, match=r"(laplacian|chi2|histogram).* takes NumPy arrays only, .*: use NumPy"):
            refused(X)


def test_refused_mixtures_of_libraries():
    strict = pytest.importorskip("array_api_strict")
    X = draw()
    for pair in [(X, strict.asarray(X)), (strict.asarray(X), X)]:
        with pytest.raises(TypeError, match=r"X is a .* and Z a .*: give both as arrays of one library"):
            K.Linear()(*pair)
    with pytest.raises(TypeError, match="overlap must return a array_api_strict Array, as X is; it returned a numpy"):
        K.Callable(lambda X, Z: np.ones((N, N)), "overlap")(strict.asarray(X))


# -- names --


@pytest.mark.parametrize(
    ("kernel", "before", "after"),
    [
        (K.RBF(gamma=0.1, on="age"), "rbf(gamma=0.1) on age", "rbf(gamma=0.1) on age"),
        (K.RBF(gamma=1 / 3, on=0), "rbf(gamma=0.333) on column 0", "rbf(gamma=0.333) on age"),
        (K.RBF(factor=4.0), "rbf(gamma=scale, factor=4)", None),
        (K.Polynomial(degree=2), "polynomial(degree=2)", "polynomial(degree=2)"),
        (
            K.Polynomial(gamma=2, coef0=0.5),
            "polynomial(degree=3, gamma=2, coef0=0.5)",
            "polynomial(degree=3, gamma=2, coef0=0.5)",
        ),
        (K.Linear(on=["age", "city"]), "linear on age and city", "linear on age and city"),
        (K.Linear(on=[0, 1, 2]), "linear on 3 columns", "linear on 3 columns"),
        (K.Linear(on=slice(3)), "linear on selected columns", "linear on 3 columns"),
        (K.Linear(on="each"), "linear on each column", None),
        (K.HistogramIntersection(), "histogram intersection", "histogram intersection"),
        (K.Callable(minimum), "minimum", "minimum"),
        (K.Callable(minimum, "overlap", on="age"), "overlap on age", "overlap on age"),
        (K.Linear() + K.Constant(), "linear + constant(value=1)", "linear + constant(value=1)"),
        (2 * (K.Linear() + K.Cosine()), "2 * (linear + cosine)", "2 * (linear + cosine)"),
        ((K.Linear() + K.Cosine()) * K.Linear(), "(linear + cosine) * linear", "(linear + cosine) * linear"),
        (
            (K.Linear() * K.Cosine()).normalised(),
            "normalised (linear * cosine)",
            "normalised (linear * cosine)",
        ),
        ((2 * K.Linear()).on_columns("age"), "2 * linear on age", "2 * linear on age"),
        (
            (K.Linear() + K.Cosine()).on_columns("age"),
            "(linear + cosine) on age",
            "linear on age + cosine on age",
        ),
    ],
)
def test_names(kernel, before, after):
    assert kernel.name == before
    if after is not None:
        assert only(kernel, draw(), names=NAMES).name == after


# -- evaluate --


def test_evaluate_equals_one_by_one():
    X, Z = draw(), draw(6, seed=1)
    kernels = [resolved for kernel in KERNELS for resolved in kernel.resolve(X)]
    for arguments in ((X,), (Z, X)):
        found = dict(K.evaluate(kernels, *arguments))
        assert sorted(found) == list(range(len(kernels)))
        for i, kernel in enumerate(kernels):
            assert_allclose(found[i], kernel(*arguments), rtol=1e-12)
        for i, matrix in K.evaluate(kernels, *arguments):
            assert_array_equal(matrix, found[i])
            matrix[:] = -1.0  # must be nobody else's memory


def test_evaluate_shares_preparation(monkeypatch):
    calls = Counter()
    for kind in (K.RBF, K.Linear, K.Polynomial, K.Sigmoid):
        original = kind.prepare

        def counted(self, X, Z=None, original=original):
            calls[self.statistic, X.shape[1]] += 1
            return original(self, X, Z)

        monkeypatch.setattr(kind, "prepare", counted)
    X = draw()
    bank = K.rbf(gamma=[0.1, 1.0]) + K.linear() + K.rbf(gamma=[0.1, 1.0], on=0) + K.polynomial(degree=[1, 2])
    bank += [2.0 * K.RBF(gamma=3.0), K.Sigmoid(gamma=0.1), 3.0 * K.Linear(), K.Linear()]
    kernels = [resolved for kernel in bank for resolved in kernel.resolve(X)]
    order = [i for i, _ in K.evaluate(kernels, X)]
    assert calls == {("sqeuclidean", D): 1, ("dot", D): 1, ("sqeuclidean", 1): 1}
    assert order == [0, 1, 7, 2, 5, 6, 8, 9, 10, 3, 4]
    calls.clear()
    normalised = [resolved for k in K.polynomial(degree=[1, 2, 3]) for resolved in k.normalised().resolve(X)]
    assert len(list(K.evaluate(normalised, X))) == 3
    assert calls == {("dot", D): 1}


def test_a_kernel_of_ones_own_needs_two_methods():
    @dataclass(frozen=True)
    class Cauchy(K.Kernel):
        width: float = 1.0
        statistic = "sqeuclidean"

        def prepare(self, X, Z=None):
            return pairwise.euclidean_distances(X, Z, squared=True)

        def finish(self, S):
            return 1 / (1 + S / self.width)

    X = draw()
    kernel = only(Cauchy(2.0, on=[0, 1]), X)
    assert kernel.name == "cauchy(width=2) on column 0 and column 1"
    assert_array_equal(kernel.diagonal(X), np.ones(N))
    assert kernel == Cauchy(2.0, on=(0, 1))
    assert (kernel + K.Linear())(X).shape == (N, N)


# -- families and specifications --


def test_families_are_plain_lists():
    bank = (
        K.rbf(gamma=np.logspace(-1, 1, 3), on="each") + K.polynomial(degree=[1, 2], coef0=(0, 1)) + K.linear()
    )
    assert type(bank) is list
    assert len(bank) == 3 + 4 + 1
    assert bank[0] == K.RBF(gamma=0.1, on="each")
    assert [(k.degree, k.coef0) for k in bank[3:7]] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert K.laplacian(gamma=0.5) == [K.Laplacian(gamma=0.5)]
    assert K.rbf() == [K.RBF()]
    assert type(K.rbf(gamma=np.float32([0.5]))[0].gamma) is float


@pytest.mark.parametrize("family", [K.linear, K.polynomial, K.sigmoid, K.rbf, K.laplacian, K.chi2, K.cosine])
def test_families_default_to_their_class(family):
    (kernel,) = family(on=[0, 1])
    assert kernel == type(kernel)(on=(0, 1))
    assert K.as_kernels(family.__name__) == [kernel.on_columns(None)]


def test_default_bank():
    X = 7.0 * draw()
    bank = [resolved for kernel in K.default_bank() for resolved in kernel.resolve(X)]
    scale = only(K.RBF(), X).gamma
    assert_allclose([k.gamma / scale for k in bank[:7]], [2.0**e for e in (-6, -4, -2, 0, 2, 4, 6)])
    assert bank[7] == K.Linear()
    assert [k.degree for k in bank[8:]] == [2, 3]
    assert len({k.name for k in bank}) == 10


def test_as_kernels():
    assert K.as_kernels("auto") == K.default_bank()
    assert K.as_kernels(K.RBF()) == [K.RBF()]
    assert K.as_kernels(minimum) == [K.Callable(minimum)]
    mixed = ["linear", K.rbf(gamma=[1, 2]), minimum, K.Cosine()]
    assert K.as_kernels(mixed) == [K.Linear(), K.RBF(1), K.RBF(2), K.Callable(minimum), K.Cosine()]


def test_all_is_what_it_says():
    assert len(set(K.__all__)) == len(K.__all__)
    assert all(hasattr(K, name) for name in K.__all__)
    assert exported(K) == names(KERNELS) | names(STRING_KERNELS)


# -- refusals --


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: K.RBF(gamma=0.0), ValueError, "gamma of RBF must be a positive number or None or 'auto' or"),
        (lambda: K.RBF(gamma="scal"), ValueError, "'scale'; got 'scal'"),
        (lambda: K.RBF(gamma=[0.1, 1.0]), ValueError, r"got \(0.1, 1.0\)"),
        (lambda: K.RBF(factor=-1), ValueError, "factor of RBF must be a positive number; got -1"),
        (lambda: K.Laplacian(gamma="scale"), ValueError, "gamma of Laplacian"),
        (lambda: K.Chi2(gamma=None), ValueError, "gamma of Chi2 must be a positive number; got None"),
        (lambda: K.Polynomial(degree=0), ValueError, "degree of Polynomial must be a whole number"),
        (lambda: K.Polynomial(degree=1.5), ValueError, "degree of Polynomial must be a whole number"),
        (lambda: K.Constant(0), ValueError, "value of Constant must be a positive number"),
        (lambda: -1.0 * K.Linear(), ValueError, "scale of Scaled must be a positive number; got -1.0"),
        (lambda: K.Linear() * np.nan, ValueError, "scale of Scaled must be a positive number; got nan"),
        (lambda: K.Linear() + 1.0, TypeError, "unsupported operand"),
        (lambda: "a" * K.Linear(), TypeError, None),
        (lambda: K.Sum([]), TypeError, "Sum takes a list of kernels"),
        (lambda: K.Product(["rbf"]), TypeError, "Product takes a list of kernels"),
        (lambda: K.Normalised("rbf"), TypeError, "Normalised takes a kernel; got 'rbf'"),
        (lambda: K.Callable("rbf"), TypeError, "must be a function of X and Z; got 'rbf'"),
        (
            lambda: K.as_kernels("rfb"),
            ValueError,
            "kernels='rfb' is not a known name; the known ones are .*rbf",
        ),
        (lambda: K.as_kernels([]), ValueError, "empty list"),
        (lambda: K.as_kernels(K.RBF), TypeError, r"write RBF\(\)"),
        (lambda: K.as_kernels([K.rbf]), TypeError, r"write rbf\(\)"),
        (lambda: K.as_kernels(3), TypeError, "got int"),
        (lambda: K.Kernel(), TypeError, "abstract"),
    ],
)
def test_refused_when_made(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("on", "error", "message"),
    [
        (7, ValueError, "column 7, but X has 5 columns"),
        ([0, -6], ValueError, "column -6, but X has 5 columns"),
        ("heigth", ValueError, r"column 'heigth', which X does not have; the closest are \['height'"),
        (["age", "zzzz"], ValueError, "column 'zzzz'"),
        (slice("nowhere", None), ValueError, "column 'nowhere'"),
        ([True, False], ValueError, "boolean mask of 2 entries, but X has 5 columns"),
        ([True, False, 2, 3, 4], ValueError, "boolean mask"),
        ([], ValueError, "selects no column"),
        (slice(9, 12), ValueError, "selects no column"),
        (1.5, TypeError, "on takes names, positions, a mask, a slice, 'each' or a selector; got 1.5"),
        (True, TypeError, "got True"),
        (make_column_selector("age"), ValueError, "selector, which needs X to be a DataFrame"),
    ],
)
@pytest.mark.parametrize("wrap", [K.Linear, lambda on: K.Linear() + K.Linear(on=on)])
def test_refused_columns(on, error, message, wrap):
    with pytest.raises(error, match=message):
        wrap(on=on).resolve(draw(), names=NAMES)


def test_refused_names_without_names():
    with pytest.raises(ValueError, match="column 'age', but X has no names"):
        K.Linear(on="age").resolve(draw())
    with pytest.raises(ValueError, match="has no names"):
        K.Linear(on="age").resolve(draw(), frame=pd.DataFrame(draw()))


@pytest.mark.parametrize(
    "kernel", [K.RBF(on="each") + K.Linear(), K.Linear() * (2 * K.RBF(on="each"))], ids=spelled
)
def test_refused_each_inside_a_combination(kernel):
    with pytest.raises(ValueError, match=r"on=.each. inside a (sum|product) .*on_columns"):
        kernel.resolve(draw())


def test_refused_when_called():
    X = draw()
    with pytest.raises(ValueError, match=r"RBF\(\) takes gamma from the training data: call resolve"):
        K.RBF()(X, X[:3])
    with pytest.raises(ValueError, match="stands for several kernels"):
        K.Linear(on="each")(X)
    with pytest.raises(ValueError, match="two dimensions"):
        K.Linear()(X[0])
    with pytest.raises(ValueError, match="normalised linear does not exist for sample 2"):
        K.Linear().normalised()(X * (np.arange(N) != 2)[:, None])
    with pytest.raises(ValueError, match="minimum must return one entry per row of X"):
        K.Callable(lambda X, Z: X, "minimum")(X)


@pytest.mark.parametrize("kernel", [K.Chi2(), K.HistogramIntersection(), 2 * K.Chi2() + K.Linear()], ids=spelled)
def test_refused_negative_histograms(kernel):
    X = draw()
    resolved = only(kernel, X)
    for arguments in ((-X,), (X, -X)):
        with pytest.raises(ValueError, match="takes no negative values in X"):
            resolved(*arguments)


@pytest.mark.parametrize(
    "kernel", [K.Chi2(), K.Chi2() + K.Linear(), 2 * K.Chi2(), K.Chi2().normalised()], ids=spelled
)
def test_refused_sparse(kernel):
    X = draw()
    for refused in (kernel.resolve, only(kernel, X), only(kernel, X).diagonal):
        with pytest.raises(TypeError, match="does not take sparse data"):
            refused(csr_matrix(X))


def test_whole_numbers_beside_themselves():
    X = np.array([[0, 1], [2, 5], [3, 3]])
    assert_allclose(K.RBF()(X, X), K.RBF()(X))
