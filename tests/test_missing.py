"""Views that samples lack: the mean of the others in their place, which with an intercept is a row of zeros."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.assemble import Options, fold_of, from_samples
from kernelweave.penalties import L1, Lp
from reference import solve_by_clarabel

FIRST, SECOND = [0, 1, 2], [3, 4]
BANK = [K.RBF(gamma=0.3, on=FIRST), K.Linear(on=SECOND), K.RBF(gamma=0.5, on=SECOND)]


@pytest.fixture
def data(rng):
    X = rng.normal(size=(70, 5))
    y = np.where(X[:, 0] + X[:, 3] * X[:, 4] + 0.5 * rng.normal(size=70) > 0, 1, -1)
    torn = X.copy()
    torn[5:20, 3:] = np.nan
    torn[30:38, :3] = np.nan
    return X, torn, y


def zero_padded(kernel, X, columns, has):
    """The kernel centred over the samples that have the view, at the size their trace gives, and zero elsewhere."""
    inside = kernel(X[has][:, columns])
    share = np.full(has.sum(), 1 / has.sum())
    means = inside @ share
    full = np.zeros((has.size, has.size))
    full[np.ix_(has, has)] = (inside - means[:, None] - means + share @ means) / np.mean(np.diag(inside))
    return full


def stack_of(torn):
    has = ~np.isnan(torn)
    plain = [K.RBF(gamma=0.3), K.Linear(), K.RBF(gamma=0.5)]
    places = [FIRST, SECOND, SECOND]
    return np.stack([zero_padded(k, torn, c, has[:, c[0]]) for k, c in zip(plain, places, strict=True)], axis=2)


@pytest.mark.parametrize("penalty", [L1(), Lp(2)], ids=str)
def test_optimum_is_that_of_zero_padded_kernels(data, penalty):
    _, torn, y = data
    model = kw.MKLClassifier(BANK, penalty=penalty, C=3.0, missing="absent", tol=1e-7).fit(torn, y)
    best = solve_by_clarabel(stack_of(torn), y.astype(float), 3.0, penalty, kw.losses.Hinge())
    certificate = model.certificate()
    assert certificate.lower <= best.value * (1 + 1e-6)
    assert certificate.upper >= best.value * (1 - 1e-6)
    assert certificate.gap <= 1e-7
    assert_allclose(model.weights_, best.weights, atol=2e-3)
    assert "23 samples lack some columns" in model.summary()


def test_nothing_missing_changes_nothing(data):
    X, _, y = data
    one, other = kw.MKLClassifier(BANK, missing="absent").fit(X, y), kw.MKLClassifier(BANK).fit(X, y)
    assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-10, atol=1e-12)
    assert_allclose(one.weights_, other.weights_, rtol=1e-10)
    assert one.kernel_names_ == other.kernel_names_
    one, other = kw.MKLClassifier(missing="absent").fit(X, y), kw.MKLClassifier().fit(X, y)
    assert_allclose(one.decision_function(X), other.decision_function(X), rtol=1e-10, atol=1e-12)


def test_prediction_without_a_view_is_the_mean_over_the_samples_that_have_it(data):
    X, _, y = data
    model = kw.MKLClassifier(BANK, penalty="lp", C=3.0, missing="absent").fit(X, y)
    lacking = X[:1].copy()
    lacking[:, SECOND] = np.nan
    swapped = np.repeat(X[:1], len(X), axis=0)
    swapped[:, SECOND] = X[:, SECOND]
    assert model.decision_function(lacking)[0] == pytest.approx(model.decision_function(swapped).mean())
    nothing = np.full((1, 5), np.nan)
    assert model.decision_function(nothing)[0] == pytest.approx(model.decision_function(X).mean())


def test_widths_are_those_of_the_samples_that_have_the_view(data):
    _, torn, y = data
    bank = [K.RBF(on=SECOND), K.RBF(on=FIRST)]
    model = kw.MKLClassifier(bank, missing="absent").fit(torn, y)
    has = ~np.isnan(torn[:, 3])
    expected = K.RBF(on=SECOND).resolve(torn[has])[0].name
    assert model.kernel_names_[0] == expected


@pytest.mark.parametrize("normalize", ["trace", "center", None])
def test_every_representation(data, normalize):
    X, torn, y = data
    stored = kw.MKLClassifier(BANK, penalty="lp", missing="absent", tol=1e-8, normalize=normalize).fit(torn, y)
    demand = clone(stored).set_params(memory=2e4).fit(torn, y)
    features = clone(stored).set_params(approximation=kw.Nystroem(rank=70), random_state=0).fit(torn, y)
    assert "on demand" in demand.storage_
    for other in (demand, features):
        assert_allclose(other.kernel_scales_, stored.kernel_scales_, rtol=1e-9)
        for samples in (X, torn):
            assert_allclose(other.decision_function(samples), stored.decision_function(samples), atol=1e-4)


def stack_with_gaps(torn):
    """The kernels between samples that have a view, NaN elsewhere."""
    stack = np.full((len(torn), len(torn), 3), np.nan)
    plain = [K.RBF(gamma=0.3), K.Linear(), K.RBF(gamma=0.5)]
    for k, (kernel, columns) in enumerate(zip(plain, [FIRST, SECOND, SECOND], strict=True)):
        has = np.flatnonzero(~np.isnan(torn[:, columns[0]]))
        stack[np.ix_(has, has, [k])] = kernel(torn[np.ix_(has, columns)])[:, :, None]
    return stack


@pytest.mark.parametrize("penalty", ["l1", "spectral"])
def test_stacks_with_rows_of_nan_are_samples_that_lack_views(data, tmp_path, penalty):
    _, torn, y = data
    stack, weight = stack_with_gaps(torn), np.arange(y.size) % 3.0
    assert np.isnan(stack).any()
    untouched = stack.copy()
    settings = {"penalty": penalty, "missing": "absent", "tol": 1e-9}
    samples = kw.MKLClassifier(BANK, **settings).fit(torn, y, sample_weight=weight)
    model = kw.MKLClassifier("precomputed", **settings).fit(stack, y, sample_weight=weight)
    assert_allclose(model.weights_, samples.weights_, atol=1e-7)
    assert_allclose(model.decision_function(stack), samples.decision_function(torn), atol=1e-6)
    assert_allclose(stack, untouched)
    assert "8 samples lack kernel 0, 15 samples lack kernel 1" in model.summary()
    kw.save(model, tmp_path / "model.kw")
    assert_allclose(kw.load(tmp_path / "model.kw").decision_function(stack), model.decision_function(stack))
    with pytest.raises(ValueError, match=r"kernel 0 is NaN in some, not all, entries of 1 samples such as number 0"):
        model.decision_function(np.where(np.arange(70)[:, None] == 1, np.nan, stack[:1]))


def test_choosing_on_stacks_with_rows_of_nan(data):
    _, torn, y = data
    settings = {"Cs": [0.1, 10.0], "cv": 3, "missing": "absent", "drop": False, "tol": 1e-7}
    one = kw.MKLClassifierCV(BANK, **settings).fit(torn, y)
    stack = stack_with_gaps(torn)
    other = kw.MKLClassifierCV("precomputed", **settings).fit(stack, y)
    assert_allclose(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    assert cross_val_score(kw.MKLClassifier("precomputed", missing="absent"), stack, y, cv=3).mean() > 0.5


def test_sizes_on_a_fold_are_of_its_samples_that_have_the_view(data):
    torn = data[1]
    train, test = np.arange(0, 60), np.arange(60, 70)
    options = Options(missing="absent")
    made = from_samples(torn, BANK, options, weight=np.ones(70))
    scales = fold_of(made, train, test).scaled(Options(), np.ones(60)).scales
    there = train[~np.isnan(torn[train, 3])]
    assert scales[1] == pytest.approx(1.0 / np.mean(np.sum(torn[there][:, SECOND] ** 2, axis=1)))
    nobody = fold_of(made, np.arange(5, 20), test).scaled
    with pytest.warns(UserWarning, match="get weight 0: linear"):
        assert nobody(Options(), np.ones(15)).scales[1] == 0.0


def test_every_task_and_a_choice_by_cross_validation(data):
    _, torn, y = data
    rng = np.random.default_rng(0)
    lives = np.array([(True, t) for t in rng.exponential(np.exp(-y / 2))], dtype=[("event", "?"), ("time", "<f8")])
    for model, targets in [
        (kw.MKLRegressor(BANK, missing="absent"), y + 0.1 * rng.normal(size=y.size)),
        (kw.MKLSurvival(BANK, missing="absent", penalty="lp"), lives),
        (kw.MKLOutlierDetector(BANK, missing="absent"), None),
        (kw.MKLClassifierCV(BANK, missing="absent", Cs=[1.0, 10.0], candidates=["l1", "uniform"], cv=2), y),
    ]:
        fitted = model.fit(torn, targets)
        assert np.isfinite(np.asarray(fitted.predict(torn), dtype=float)).all()
    assert cross_val_score(kw.MKLClassifier(BANK, missing="absent", C=3.0), torn, y, cv=3).mean() > 0.55


def test_tables_that_lack_samples(data):
    pandas = pytest.importorskip("pandas")
    X, _, y = data
    names = [f"p{i}" for i in range(len(X))]
    first = pandas.DataFrame(X[:, FIRST], index=names)
    second = pandas.DataFrame(X[:, SECOND], index=names).drop(index=names[5:20])
    views = {"scan": first, "blood": second}
    model = kw.MKLClassifier("views", missing="absent").fit(views, y)
    assert "15 samples lack blood" in model.summary()
    whole = X.copy()
    whole[5:20, SECOND] = np.nan
    assert_allclose(model.decision_function(views), model.decision_function(whole))
    without = whole.copy()
    without[:, SECOND] = np.nan
    assert_allclose(model.decision_function({"scan": first}), model.decision_function(without))
    with pytest.raises(ValueError, match="missing='absent'"):
        kw.MKLClassifier("views").fit(views, y)


def test_model_files(data, tmp_path):
    _, torn, y = data
    sizes = [{"penalty": "l1", "normalize": size} for size in (kw.TailSum(3), kw.EffectiveDimension())]
    for model in (
        kw.MKLClassifier(BANK, missing="absent"),
        *(kw.MKLClassifierCV(BANK, missing="absent", Cs=[1.0], candidates=[size], cv=2) for size in sizes),
    ):
        model.fit(torn, y)
        kw.save(model, tmp_path / "model.kw")
        assert_allclose(kw.load(tmp_path / "model.kw").decision_function(torn), model.decision_function(torn))


def test_what_is_refused(data):
    X, torn, y = data
    with pytest.raises(ValueError, match="NaN, in 23 samples: use missing='absent'"):
        kw.MKLClassifier(BANK).fit(torn, y)
    with pytest.raises(ValueError, match="missing='nonsense' is not known"):
        kw.MKLClassifier(BANK, missing="nonsense").fit(X, y)
    partly = X.copy()
    partly[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"NaN in some, not all, of the columns of rbf.*number 3"):
        kw.MKLClassifier(BANK, missing="absent").fit(partly, y)
    partly[3, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        kw.MKLClassifier(BANK, missing="absent").fit(partly, y)
    empty = X.copy()
    empty[:, SECOND] = np.nan
    with pytest.raises(ValueError, match="No sample has the columns"):
        kw.MKLClassifier(BANK, missing="absent").fit(empty, y)
    stack = stack_with_gaps(torn)
    with pytest.raises(ValueError, match=r"kernel 0 holds NaN or infinity.*missing='absent' if samples lack it"):
        kw.MKLClassifier("precomputed").fit(stack, y)
    stack[:, :, 1] = np.nan
    with pytest.raises(ValueError, match="No sample has kernel 1"):
        kw.MKLClassifier("precomputed", missing="absent").fit(stack, y)
    stack[0, 1, 0] = np.nan
    with pytest.raises(ValueError, match="kernel 0 is NaN in some, not all"):
        kw.MKLClassifier("precomputed", missing="absent").fit(stack, y)
    with pytest.raises(ValueError, match="takes X that is not sparse"):
        kw.MKLClassifier(missing="absent").fit(csr_matrix(X), y)
    with pytest.raises(ValueError, match="NaN in some, not all"):
        kw.MKLClassifier(K.effects(), missing="absent", approximation="explicit").fit(torn, y)
    assert kw.MKLClassifier(missing="absent").__sklearn_tags__().input_tags.allow_nan
    assert not kw.MKLClassifier().__sklearn_tags__().input_tags.allow_nan
