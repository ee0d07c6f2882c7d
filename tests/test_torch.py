"""Arrays of other libraries: the same answers, in the library and on the device of the samples.

Everything here runs with array-api-strict, which allows nothing beyond the array API, and with torch where that is
installed.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import arrays
from kernelweave import kernels as K
from kernelweave.arrays import device_of, to_host
from kernelweave.grams import LowRankGram

MODULES = {"strict": "array_api_strict", "torch": "torch"}
BANK = K.rbf(gamma=[0.01, 0.1]) + K.linear() + K.polynomial(degree=2)
SOLVERS = ["interior", "ssnal", "gfb", "gfb-merged", "mehrotra"]


@pytest.fixture(scope="module", params=MODULES)
def xp(request):
    return pytest.importorskip(MODULES[request.param], reason="this library is not installed")


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:160], y[:160]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def machine(approximation=None, bank=BANK, **params):
    approximation = kw.Nystroem(rank=12) if approximation is None else approximation
    return kw.MKLClassifier(bank, approximation=approximation, random_state=0, **params)


def is_of(array, xp):
    return type(array) is type(xp.asarray([0.0]))


# --- answers -----------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_answers_are_those_of_numpy(wdbc, xp, solver):
    X, y = wdbc
    model = machine(penalty="lp", solver=solver, tol=1e-10 if solver in ("interior", "ssnal") else 1e-4)
    ours, theirs = clone(model).fit(X, y), clone(model).fit(xp.asarray(X), xp.asarray(y))
    np.testing.assert_allclose(theirs.weights_, ours.weights_, atol=1e-8)
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=1e-8)
    np.testing.assert_allclose(theirs.approximation_error_, ours.approximation_error_, atol=1e-10)
    np.testing.assert_allclose(to_host(theirs.decision_function(xp.asarray(X))), ours.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("penalty", ["l1", "lp", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_default_solver_takes_every_penalty_and_loss(wdbc, xp, penalty, loss):
    X, y = wdbc
    model = machine(penalty=penalty, loss=loss, tol=1e-6)
    ours, theirs = clone(model).fit(X, y), clone(model).fit(xp.asarray(X), xp.asarray(y))
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=2e-6)
    assert theirs.dual_gap_ <= 1e-6


@pytest.mark.parametrize("approximation", [kw.PivotedCholesky(rank=10, tol=None), kw.RandomFeatures(rank=10)], ids=str)
def test_every_approximation_follows_the_samples(wdbc, xp, approximation):
    X, y = wdbc
    model = machine(approximation, K.rbf(gamma=[0.01, 0.1]), tol=1e-6)
    ours, theirs = clone(model).fit(X, y), clone(model).fit(xp.asarray(X), xp.asarray(y))
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=2e-6)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes(iris, xp, multiclass):
    X, y = iris
    model = machine(multiclass=multiclass, C=10.0, tol=1e-8, penalty="lp")
    ours, theirs = clone(model).fit(X, y), clone(model).fit(xp.asarray(X), xp.asarray(y))
    np.testing.assert_allclose(theirs.weights_, ours.weights_, atol=1e-4)
    scores = theirs.decision_function(xp.asarray(X))
    np.testing.assert_allclose(to_host(scores), ours.decision_function(X), atol=1e-3)
    assert theirs.dual_coef_.shape == (3, theirs.support_.shape[0])
    assert theirs.score(xp.asarray(X), xp.asarray(y)) == pytest.approx(ours.score(X, y))


def test_weights_of_samples_and_classes(wdbc, xp):
    X, y = wdbc
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    for class_weight in ({0: 0.2, 1: 3.0}, "balanced"):
        model = machine(class_weight=class_weight, tol=1e-8, penalty="lp")
        ours = clone(model).fit(X, y, sample_weight=weight)
        theirs = clone(model).fit(xp.asarray(X), xp.asarray(y), sample_weight=xp.asarray(weight))
        mixed = clone(model).fit(xp.asarray(X), y.tolist(), sample_weight=weight.tolist())
        for other in (theirs, mixed):
            assert other.objective_ == pytest.approx(ours.objective_, rel=1e-7)
            assert not set(to_host(other.support_)) & set(np.flatnonzero(weight == 0))
    scores = [ours.score(X, y, weight), theirs.score(xp.asarray(X), xp.asarray(y), xp.asarray(weight))]
    assert scores[0] == pytest.approx(scores[1])


# --- what comes out -----------------------------------------------------------------------


def test_arrays_come_out_as_they_went_in(wdbc, xp):
    X, y = xp.asarray(wdbc[0]), xp.asarray(wdbc[1])
    model = machine().fit(X, y)
    for array in (model.decision_function(X), model.predict(X), model.dual_coef_, model.support_):
        assert is_of(array, xp)
        assert device_of(array) == device_of(X)
    for array in (model.weights_, model.intercept_, model.kernel_scales_, model.approximation_error_, model.classes_):
        assert type(array) is np.ndarray
    assert model.predict(X).dtype == y.dtype
    assert model.n_features_in_ == 30
    assert model.storage_.startswith("low rank float64, 4 kernels, ")
    assert "certified for the approximated kernels" in model.summary()
    assert 0.9 < model.score(X, y) <= 1


def test_single_precision_stays(wdbc, xp):
    X, y = xp.asarray(wdbc[0].astype(np.float32)), xp.asarray(wdbc[1])
    model = machine(penalty="lp").fit(X, y)
    assert model.storage_.startswith("low rank float32")
    assert model.decision_function(xp.asarray(wdbc[0])).dtype == xp.float64
    assert model.score(X, y) > 0.9


LABELS = {
    "list": lambda y, xp: y.tolist(),
    "NumPy": lambda y, xp: y,
    "truth values": lambda y, xp: xp.asarray(y == 1),
    "whole floats": lambda y, xp: xp.asarray(2.0 * y - 1.0),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_any_kind(wdbc, xp, labels):
    X, y = xp.asarray(wdbc[0]), labels(wdbc[1], xp)
    model = machine().fit(X, y)
    predicted = model.predict(X)
    assert is_of(predicted, xp)
    given = y if isinstance(y, list) else to_host(y).tolist()
    assert set(to_host(predicted).tolist()) == set(model.classes_.tolist()) == set(given)
    assert model.score(X, y) > 0.9


def test_words_as_labels_are_predicted_as_words(wdbc, xp):
    X, y = xp.asarray(wdbc[0]), np.array(["no", "yes"])[wdbc[1]]
    model = machine().fit(X, y)
    assert model.predict(X).dtype == y.dtype
    assert 0.9 < model.score(X, y) == pytest.approx(model.score(X, y, xp.ones(160)))


def test_paths_stay_with_the_samples(wdbc, xp):
    X, y = wdbc
    model = machine(penalty="lp", tol=1e-6)
    ours = kw.path(model, X, y, C=[1.0, 0.1])
    theirs = kw.path(model, xp.asarray(X), xp.asarray(y), C=[1.0, 0.1])
    np.testing.assert_allclose(theirs.objectives, ours.objectives, rtol=3e-6)
    assert theirs.gaps.max() <= 1e-6


def test_pickles(wdbc):
    torch = pytest.importorskip("torch", reason="this library is not installed")
    X, y = torch.asarray(wdbc[0]), torch.asarray(wdbc[1])
    model = machine().fit(X, y)
    data = pickle.dumps(model)
    again = pickle.loads(data)
    assert torch.equal(again.decision_function(X), model.decision_function(X))
    assert again.summary() == model.summary()
    assert len(data) < 60_000


def test_samples_with_a_gradient_are_read_without_it(wdbc):
    torch = pytest.importorskip("torch", reason="this library is not installed")
    X = torch.asarray(wdbc[0]).requires_grad_()
    model = machine().fit(X, wdbc[1])
    assert not model.decision_function(X).requires_grad
    assert not model.dual_coef_.requires_grad


@pytest.mark.parametrize("cuda", [True], ids=["torch-cuda"])
def test_on_a_graphics_card(wdbc, cuda):
    torch = pytest.importorskip("torch", reason="this library is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no graphics card")
    X, y = (torch.asarray(values, device="cuda") for values in wdbc)
    model = machine(penalty="lp", tol=1e-6).fit(X, y)
    assert model.predict(X).device == model.dual_coef_.device == X.device
    assert model.objective_ == pytest.approx(machine(penalty="lp", tol=1e-6).fit(*wdbc).objective_, rel=2e-6)


@pytest.mark.parametrize("cuda", [True], ids=["torch-cuda"])
def test_single_precision_products_on_a_graphics_card(cuda):
    torch = pytest.importorskip("torch", reason="this library is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no graphics card")
    rng = np.random.default_rng(0)
    V, beta, z = rng.normal(size=(1003, 37)).astype(np.float32), rng.normal(size=1003), rng.normal(size=37)
    here, there = LowRankGram(V, [30, 7]), LowRankGram(torch.asarray(V, device="cuda"), [30, 7])
    wide = torch.stack([torch.asarray(beta)] * 2, dim=1).cuda()
    assert_allclose(there.rmatvec(wide[:, 0]).cpu().numpy(), here.rmatvec(beta), rtol=1e-12)
    assert_allclose(there.matvec(torch.asarray(z).cuda()).cpu().numpy(), here.matvec(z), rtol=1e-12)
    theta = there.asarray(beta**2)
    assert_allclose(there.weighted(theta).cpu().numpy(), here.weighted(beta**2), rtol=1e-10)


# --- refusals -----------------------------------------------------------------------


def hole(X, value):
    X = X.copy()
    X[3, 1] = value
    return X


# what is done to X and y, parameters, type of the exception, fragment of its message
REFUSALS = {
    "precomputed": (
        lambda X, y: (X @ X.T, y),
        {"kernels": "precomputed", "approximation": None},
        TypeError,
        "must be a NumPy array for kernels='precomputed'",
    ),
    "NaN": (lambda X, y: (hole(X, np.nan), y), {}, ValueError, "X contains NaN"),
    "infinity": (lambda X, y: (hole(X, np.inf), y), {}, ValueError, "X contains infinity"),
    "one dimension": (lambda X, y: (X[:, 0], y), {}, ValueError, "X must have two dimensions"),
    "no rows": (lambda X, y: (X[:0], y[:0]), {}, ValueError, "no samples or no features"),
    "whole numbers": (lambda X, y: (X.astype(int), y), {}, TypeError, "must hold float32 or float64; got int64"),
    "too few labels": (lambda X, y: (X, y[:20]), {}, ValueError, "inconsistent numbers of samples"),
    "labels in a table": (lambda X, y: (X, y[:, None]), {}, ValueError, "y must have one dimension"),
    "one class": (lambda X, y: (X, 0 * y), {}, ValueError, "only one class (0)"),
    "measurements": (lambda X, y: (X, X[:, 0]), {}, ValueError, "continuous"),
    "missing label": (lambda X, y: (X, np.where(y == 1, 1.0, np.nan)), {}, ValueError, "y contains NaN"),
    "unknown class": (lambda X, y: (X, y), {"class_weight": {7: 1.0}}, ValueError, "not in class_weight"),
}


@pytest.mark.parametrize(("change", "params", "error", "fragment"), REFUSALS.values(), ids=REFUSALS.keys())
def test_fit_refuses(wdbc, xp, change, params, error, fragment):
    X, y = (xp.asarray(values) for values in change(*wdbc))
    with pytest.raises(error) as refusal:
        machine().set_params(**params).fit(X, y)
    assert fragment in str(refusal.value)


WEIGHTS = {
    "negative": (lambda w: -w, "sample_weight holds negative values"),
    "zero": (lambda w: 0 * w, "sample_weight is zero for every row"),
    "NaN": (lambda w: np.nan * w, "sample_weight contains NaN"),
    "of other rows": (lambda w: w[:7], "sample_weight has shape (7,)"),
}


@pytest.mark.parametrize(("change", "fragment"), WEIGHTS.values(), ids=WEIGHTS.keys())
def test_fit_refuses_weights(wdbc, xp, change, fragment):
    X, y = (xp.asarray(values) for values in wdbc)
    with pytest.raises(ValueError) as refusal:
        machine().fit(X, y, sample_weight=xp.asarray(change(np.ones(160))))
    assert fragment in str(refusal.value)


def test_labels_of_another_library_than_the_samples_are_refused(wdbc, xp):
    with pytest.raises(TypeError, match=r"y is a .* and X a numpy ndarray: give both of one library"):
        machine().fit(wdbc[0], xp.asarray(wdbc[1]))
    with pytest.raises(TypeError, match=r"sample_weight is a .* and X a numpy ndarray: give both of one library"):
        machine().fit(*wdbc, sample_weight=xp.ones(160))


def test_prediction_stays_in_the_library_of_the_fit(wdbc, xp):
    X, y = wdbc
    there, here = machine().fit(xp.asarray(X), xp.asarray(y)), machine().fit(X, y)
    with pytest.raises(TypeError, match=r"the model was fitted on a .*: convert X"):
        there.predict(X)
    with pytest.raises(TypeError, match="the model was fitted on a numpy ndarray: convert X"):
        here.predict(xp.asarray(X))
    with pytest.raises(ValueError, match="X has 29 features, but MKLClassifier is expecting 30"):
        there.predict(xp.asarray(X[:, :29]))
    with pytest.raises(ValueError, match="X contains NaN"):
        there.predict(xp.asarray(hole(X, np.nan)))
    exact = kw.MKLClassifier(BANK).fit(X, y)
    with pytest.raises(TypeError, match="convert X"):
        exact.predict(xp.asarray(X))


def test_memory_is_foreseen(wdbc, xp):
    X, y = (xp.asarray(values) for values in wdbc)
    model = machine(memory=160 * 4 * 8 * 9 + 10).fit(X, y)
    assert "recomputed from X at each pass" in model.storage_


SPREAD = np.random.default_rng(0).normal(size=700)


@pytest.mark.parametrize("values", [SPREAD, np.exp(12 * SPREAD), np.round(SPREAD), np.ones(300)], ids=range(4))
def test_entries_at_some_places_of_many_are_found_without_sorting_all(values, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(arrays, "SORTED", 20)
    ranked, last = np.sort(values), len(values) - 1
    for ranks in ([0], [last], [last // 2, last // 2 + 1], [3, last - 3], [last // 3, last // 3]):
        assert arrays.order_statistics(torch.tensor(values), ranks) == [ranked[rank] for rank in ranks]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused(wdbc, layout):
    torch = pytest.importorskip("torch", reason="this library is not installed")
    with pytest.raises(TypeError, match="sparse tensor: give a dense one"):
        machine().fit(getattr(torch.asarray(wdbc[0]), layout)(), wdbc[1])
