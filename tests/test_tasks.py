"""Every task: one kernel is what other libraries make of it; faces of targets; cross-validation; refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, OneClassSVM

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import losses as L

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:250], (y[:250] - y.mean()) / y.std()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def survival(n=150, d=3, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    time, lost = rng.exponential(np.exp(-X[:, 0] + 0.5 * X[:, 1])), rng.exponential(2.0, n)
    seen = np.minimum(time, lost)
    seen = np.ceil(8 * seen) / 8 if ties else seen
    y = np.array(list(zip(time <= lost, seen, strict=True)), dtype=[("event", bool), ("time", float)])
    return X, y


ONE = {"kernels": [K.RBF(gamma=0.1)], "normalize": None, "tol": 1e-9}
LINEAR = {"kernels": ["linear"], "normalize": None, "tol": 1e-9}


# -- one kernel equals scikit-learn -----------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["l1", "lp", "uniform"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_svr(diabetes, penalty, C):
    X, y = diabetes
    ours = kw.MKLRegressor(**ONE, penalty=penalty, loss=L.EpsilonInsensitive(0.2), C=C).fit(X, y)
    theirs = SVR(kernel="rbf", gamma=0.1, epsilon=0.2, C=C, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def test_svr_weighted(diabetes):
    X, y = diabetes
    w = RNG.uniform(0.0, 2.0, len(y)) * (RNG.uniform(size=len(y)) > 0.2)
    ours = kw.MKLRegressor(**ONE, loss=L.EpsilonInsensitive(0.2)).fit(X, y, w)
    theirs = SVR(kernel="rbf", gamma=0.1, epsilon=0.2, tol=1e-8).fit(X, y, w)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


@pytest.mark.parametrize("several", [False, True])
def test_kernel_ridge(diabetes, several):
    X, y = diabetes
    y = np.stack([y, X[:, 0] * y], axis=1) if several else y
    ours = kw.MKLRegressor(**ONE, C=5.0, fit_intercept=False).fit(X, y)
    theirs = KernelRidge(kernel="rbf", gamma=0.1, alpha=1 / 5.0).fit(X, y)
    assert ours.predict(X).shape == y.shape
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5, 0.89])  # theirs fails at 1
def test_one_class_svm(iris, nu):
    X, _ = iris
    ours = kw.MKLOutlierDetector(**ONE, nu=nu).fit(X)
    theirs = OneClassSVM(kernel="rbf", gamma=0.1, nu=nu, tol=1e-9).fit(X)
    scale = nu * len(X)
    np.testing.assert_allclose(scale * ours.score_samples(X), theirs.score_samples(X), rtol=1e-3)
    if nu < 1:
        np.testing.assert_allclose(scale * ours.offset_, theirs.offset_, rtol=1e-3)
        clear = np.abs(theirs.decision_function(X)) > 1e-4
        np.testing.assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    np.testing.assert_allclose(ours.dual_coef_.sum(), 1.0)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_quantile_regressor(diabetes, level):
    """Theirs has an l1 penalty: agreement where neither is felt."""
    X, y = diabetes[0][:100, :2], diabetes[1][:100]
    ours = kw.MKLRegressor(**{**LINEAR, "tol": 1e-6}, loss=L.Quantile(level), C=1e3).fit(X, y)
    theirs = QuantileRegressor(quantile=level, alpha=0.0).fit(X, y)

    def pinball(f):
        return np.maximum(level * (y - f), (level - 1) * (y - f)).sum()

    np.testing.assert_allclose(pinball(ours.predict(X)), pinball(theirs.predict(X)), rtol=1e-4)


def test_huber_regressor(diabetes):
    """Theirs learns the scale too; at that scale ours is the same."""
    X, y = diabetes[0][:, :4], diabetes[1]
    theirs = HuberRegressor(epsilon=1.35, alpha=1e-2, tol=1e-10, max_iter=10000).fit(X, y)
    delta, s = 1.35 * theirs.scale_, theirs.scale_
    # theirs: sum s H(r/s) + alpha |w|^2 with H = z^2 or 2 eps|z| - eps^2: (2 / s) huber(delta) + alpha |w|^2
    ours = kw.MKLRegressor(**LINEAR, loss=L.Huber(delta), C=1 / (s * 1e-2)).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_multinomial(iris, C):
    X, y = iris
    ours = kw.MKLClassifier(**LINEAR, loss="logistic", multiclass="joint", C=C).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)
    assert ours.intercept_.shape == (3,) and ours.weights_.shape == (1,)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_cox(ties, alpha):
    linear_model = pytest.importorskip("sksurv.linear_model")
    X, y = survival(ties=ties)
    ours = kw.MKLSurvival(**LINEAR, C=1 / alpha).fit(X, y)
    theirs = linear_model.CoxPHSurvivalAnalysis(alpha=alpha, ties="breslow", tol=1e-12).fit(X, y)
    a, b = ours.predict(X), theirs.predict(X)
    np.testing.assert_allclose(a - a.mean(), b - b.mean(), atol=1e-3)
    times = np.linspace(0.2, 1.5, 7)  # before the first event theirs is not 1
    curves = np.stack([f(times) for f in theirs.predict_survival_function(X)])
    np.testing.assert_allclose(ours.predict_survival_function(X, times), curves, atol=1e-3)
    np.testing.assert_allclose(ours.score(X, y), theirs.score(X, y), atol=1e-3)


def test_curvature_of_cox_takes_tables(rng):
    y = np.stack([rng.random(40) < 0.6, rng.integers(1, 15, 40)], axis=1).astype(float)
    loss, f, table = L.Cox().bind(y, C=rng.random(40) + 0.2), rng.normal(size=40), rng.normal(size=(40, 3))
    found, step = loss.curvature_times(f, table), 1e-5
    for column, along in zip(table.T, found.T, strict=True):
        slopes = loss.slope(f + step * column) - loss.slope(f - step * column)
        np.testing.assert_allclose(along, slopes / (2.0 * step), atol=1e-7)
        np.testing.assert_allclose(along, loss.curvature_times(f, column), atol=1e-12)


def test_concordance_is_scikit_survivals():
    metrics = pytest.importorskip("sksurv.metrics")
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = 50
        event, time, risk = rng.random(n) < 0.6, rng.integers(1, 20, n).astype(float), rng.integers(0, 9, n) / 3.0
        theirs = metrics.concordance_index_censored(event, time, risk)[0]
        assert abs(L.survival.concordance(risk, event, time) - theirs) < 1e-12


# -- weights of samples, shapes of y, faces ---------------------------------------------------------------


def test_cox_weight_two_is_the_row_twice():
    X, y = survival(80, ties=True)
    w = RNG.integers(0, 3, 80)
    w[:5] = 1
    ours = kw.MKLSurvival(penalty="lp", tol=1e-8).fit(X, y, sample_weight=w)
    again = kw.MKLSurvival(penalty="lp", tol=1e-8).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(ours.predict(X), again.predict(X), atol=1e-4)
    t = [0.3, 1.0]
    np.testing.assert_allclose(ours.predict_survival_function(X, t), again.predict_survival_function(X, t), atol=1e-4)
    assert abs(ours.score(X, y, sample_weight=w) - again.score(np.repeat(X, w, axis=0), np.repeat(y, w))) < 1e-6


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_survival_functions_do_not_depend_on_the_units_of_weight(C):
    X, y = survival(80)
    one = kw.MKLSurvival(penalty="lp", C=C, tol=1e-8).fit(X, y)
    two = kw.MKLSurvival(penalty="lp", C=C / 2, tol=1e-8).fit(X, y, sample_weight=np.full(80, 2.0))
    t = [0.3, 1.0]
    np.testing.assert_allclose(one.predict_survival_function(X, t), two.predict_survival_function(X, t), atol=1e-5)
    S = one.predict_survival_function(X)
    assert np.all(np.diff(S, axis=1) <= 0) and S.max() <= 1 and S.min() >= 0


def test_faces_of_survival_targets():
    X, y = survival(60)
    base = kw.MKLSurvival(penalty="lp").fit(X, y).predict(X)
    event, time = y["event"], y["time"]
    faces = {
        "table": np.column_stack([event, time]),
        "frame": pd.DataFrame({"time": time, "event": event}),
        "frame of ints": pd.DataFrame({"days": time, "status": event}),  # the boolean one
        "frame by order": pd.DataFrame({"status": event.astype(int), "days": time}),
        "swapped fields": np.array(list(zip(time, event, strict=True)), dtype=[("t", float), ("e", bool)]),
        "list": list(zip(event, time, strict=True)),
    }
    for name, face in faces.items():
        np.testing.assert_array_equal(kw.MKLSurvival(penalty="lp").fit(X, face).predict(X), base, err_msg=name)
    everyone = kw.MKLSurvival(penalty="lp").fit(X, time).predict(X)
    same = kw.MKLSurvival(penalty="lp").fit(X, np.column_stack([np.ones(60), time])).predict(X)
    np.testing.assert_array_equal(everyone, same)


def test_targets_joint_and_each(diabetes):
    X, y = diabetes
    Y = pd.DataFrame({"a": y, "b": X[:, 2] + 0.1 * y})
    joint = kw.MKLRegressor(penalty="lp").fit(X, Y)
    each = kw.MKLRegressor(penalty="lp", targets="each").fit(X, Y)
    assert joint.weights_.shape == (10,) and each.weights_.shape == (2, 10)
    assert joint.intercept_.shape == each.intercept_.shape == (2,)
    assert joint.problem_names_ == ["a / b"] and each.problem_names_ == ["a", "b"]
    assert joint.predict(X).shape == each.predict(X).shape == (250, 2)
    for c, name in enumerate(Y):
        alone = kw.MKLRegressor(penalty="lp").fit(X, Y[name])
        assert alone.problem_names_ == [name]
        np.testing.assert_allclose(each.predict(X)[:, c], alone.predict(X), atol=1e-10)
    column = kw.MKLRegressor(penalty="lp").fit(X, Y[["a"]])
    assert column.predict(X).shape == (250, 1) and column.weights_.shape == (10,)
    assert abs(joint.score(X, Y) - r2_score(Y, joint.predict(X))) < 1e-12
    assert each.certificate().gap == each.dual_gap_
    assert "binary" not in each.summary()


@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive", "squared_epsilon_insensitive", "huber", "quantile"])
@pytest.mark.parametrize("targets", ["joint", "each"])
@pytest.mark.parametrize("approximation", [None, "nystroem"])
def test_every_loss_with_several_targets(diabetes, loss, targets, approximation):
    X, y = diabetes
    Y = np.stack([y, X[:, 2] + 0.1 * y], axis=1)[:120]
    reg = kw.MKLRegressor(loss=loss, targets=targets, penalty="lp", approximation=approximation, random_state=0)
    reg.fit(X[:120], Y)
    assert reg.dual_gap_ <= 1e-3
    f = reg.predict(X[:120])
    total = sum(c.upper for c in np.atleast_1d(reg.certificate()))
    assert L.make_loss(loss).bind(Y).value(f).sum() <= total * (1 + 1e-6)


def models():
    X, y = survival(90)
    number = X[:, 0] + 0.1 * RNG.standard_normal(90)
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    yield "regression", kw.MKLRegressor(penalty="lp"), X, number
    yield "several", kw.MKLRegressor(penalty="lp"), X, np.stack([number, X[:, 1]], axis=1)
    yield "svr", kw.MKLRegressor(penalty="lp", loss="epsilon_insensitive"), X, number
    yield "quantile", kw.MKLRegressor(penalty="lp", loss="quantile"), X, number
    yield "huber", kw.MKLRegressor(penalty="lp", loss="huber"), X, number
    yield "outliers", kw.MKLOutlierDetector(nu=0.2), X, None
    yield "survival", kw.MKLSurvival(penalty="lp"), X, y
    yield "softmax", kw.MKLClassifier(loss="logistic", multiclass="joint", penalty="lp"), X, labels


MODELS = {name: rest for name, *rest in models()}


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("name", MODELS)
def test_stacks_and_sparse_and_frames(name):
    model, X, y = MODELS[name]
    bank = [K.RBF(gamma=0.1), K.RBF(gamma=1.0), K.Linear()]

    def stack(A):
        return np.stack([kernel(A, X) for kernel in bank], axis=2)

    model = changed(model, kernels=bank, tol=1e-6)
    base = scores(model.fit(X, y), X)
    pre = changed(model, kernels="precomputed").fit(stack(X), y)
    np.testing.assert_allclose(scores(pre, stack(X)), base, atol=1e-6)
    np.testing.assert_allclose(
        scores(changed(model).fit(sparse.csr_matrix(X), y), sparse.csr_matrix(X)), base, atol=1e-5
    )
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_allclose(scores(changed(model).fit(frame, y), frame), base, atol=1e-6)


def changed(model, **params):
    """Return a new model with some parameters changed."""
    return clone(model).set_params(**params)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "outliers"])
@pytest.mark.parametrize("stacked", [False, True])
def test_grid_search(name, stacked):
    model, X, y = MODELS[name]
    bank = [K.RBF(gamma=0.1), K.Linear()]
    if stacked:
        data, model = np.stack([kernel(X, X) for kernel in bank], axis=2), changed(model, kernels="precomputed")
    else:
        data, model = X, changed(model, kernels=bank)
    search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3, error_score="raise").fit(data, y)
    assert np.isfinite(search.best_score_)
    assert np.all(np.isfinite(cross_val_score(model, data, y, cv=3, error_score="raise")))


@pytest.mark.parametrize("name", MODELS)
def test_tensors(name):
    torch = pytest.importorskip("torch")
    model, X, y = MODELS[name]
    model = changed(model, approximation=kw.Nystroem(rank=20), random_state=0, tol=1e-6)
    base = scores(model.fit(X, y), X)
    T = torch.tensor(X)
    target = y
    if y is not None:
        target = torch.tensor(np.column_stack([y["event"], y["time"]]) if y.dtype.names else y)
    again = changed(model).fit(T, target)
    found = scores(again, T)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), base, atol=1e-3)
    if name != "outliers":
        assert abs(again.score(T, target) - model.score(X, y)) < 1e-3
    changed(model).fit(T, y)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "outliers"])
def test_paths(name):
    model, X, y = MODELS[name]
    along = kw.path(model, X, y, C=[10.0, 0.1, 1.0])
    assert along.gaps.max() <= 1e-3
    for C, objective in zip(along.C, along.objectives, strict=True):
        alone = changed(model, C=C).fit(X, y).objective_
        np.testing.assert_allclose(objective, alone, rtol=2e-3)


def test_path_needs_C():
    with pytest.raises(TypeError, match="no C"):
        kw.path(kw.MKLOutlierDetector(), np.eye(4), None, C=[1.0])


@pytest.mark.parametrize("name", MODELS)
def test_summary_and_certificate(name):
    model, X, y = MODELS[name]
    model = changed(model).fit(X, y)
    assert "binary" not in model.summary()
    assert "optimum" in str(model.certificate())


def test_offset():
    X = RNG.standard_normal((60, 2))
    detector = kw.MKLOutlierDetector(nu=0.3).fit(X)
    np.testing.assert_allclose(detector.score_samples(X) - detector.offset_, detector.decision_function(X))
    np.testing.assert_array_equal(detector.fit_predict(X), detector.predict(X))


@pytest.mark.parametrize("penalty", ["alignment", "centred-alignment"])
def test_weightings_of_numbers(diabetes, penalty):
    X, y = diabetes
    reg = kw.MKLRegressor(penalty=penalty).fit(X, y)
    assert reg.dual_gap_ <= 1e-3 and reg.score(X, y) > 0.3


def test_spectral_regression(diabetes):
    X, y = diabetes
    reg = kw.MKLRegressor([K.RBF(gamma=0.1), K.Linear()], penalty="spectral").fit(X[:100], y[:100])
    assert reg.dual_gap_ <= 1e-3 and reg.pair_weights_.shape == (3, 3)


# -- bad input --------------------------------------------------------------------------------------------

X0 = RNG.standard_normal((20, 2))
Y0 = X0[:, 0]
BAD = {
    "text": (kw.MKLRegressor(), np.array(["a", "b"] * 10), ValueError, "use kw.MKLClassifier"),
    "objects": (kw.MKLRegressor(), np.array(["a", "b"] * 10, dtype=object), ValueError, "use kw.MKLClassifier"),
    "booleans": (kw.MKLRegressor(), Y0 > 0, ValueError, "use kw.MKLClassifier"),
    "constant": (kw.MKLRegressor(), np.ones(20), ValueError, "y is the same for all 20 samples"),
    "infinite": (kw.MKLRegressor(), np.where(Y0 > 0, np.inf, Y0), ValueError, "y contains infinity"),
    "nan": (kw.MKLRegressor(), np.where(Y0 > 0, np.nan, Y0), ValueError, "y contains NaN"),
    "shape": (kw.MKLRegressor(), np.zeros((20, 1, 1)), ValueError, "y has shape"),
    "length": (kw.MKLRegressor(), Y0[:-1], ValueError, "inconsistent numbers of samples"),
    "none": (kw.MKLRegressor(), None, ValueError, "requires y"),
    "targets": (kw.MKLRegressor(targets="all"), Y0, ValueError, "choose one of 'joint', 'each'"),
    "level": (kw.MKLRegressor(loss=L.Quantile(1.0)), Y0, ValueError, "level must be"),
    "epsilon": (kw.MKLRegressor(loss=L.EpsilonInsensitive(-1.0)), Y0, ValueError, "epsilon must be"),
    "delta": (kw.MKLRegressor(loss=L.Huber(0.0)), Y0, ValueError, "delta must be"),
    "hinge for numbers": (kw.MKLRegressor(loss="hinge"), Y0, ValueError, "or use kw.MKLClassifier"),
    "cox for numbers": (kw.MKLRegressor(loss="cox"), Y0, ValueError, "or use kw.MKLSurvival"),
    "huber for classes": (kw.MKLClassifier(loss="huber"), Y0 > 0, ValueError, "or use kw.MKLRegressor"),
    "one-class for classes": (kw.MKLClassifier(loss="one_class"), Y0 > 0, ValueError, "kw.MKLOutlierDetector"),
    "joint squared": (
        kw.MKLClassifier(loss="squared", multiclass="joint"),
        np.arange(20) % 3,
        ValueError,
        "multiclass='joint' is for loss='hinge' and 'logistic'",
    ),
    "fractions for classes": (kw.MKLClassifier(), Y0, ValueError, "Unknown label type"),
    "nu 0": (kw.MKLOutlierDetector(nu=0), None, ValueError, "nu must be"),
    "nu 2": (kw.MKLOutlierDetector(nu=2), None, ValueError, "nu must be"),
    "nu text": (kw.MKLOutlierDetector(nu="many"), None, ValueError, "nu must be"),
    "easymkl for numbers": (kw.MKLRegressor(penalty="easymkl"), Y0, ValueError, "labels of classes"),
    "alignment for outliers": (kw.MKLOutlierDetector(penalty="alignment"), None, ValueError, "labels of classes"),
    "no event": (kw.MKLSurvival(), np.column_stack([0 * Y0, Y0 - Y0.min()]), ValueError, "no event"),
    "negative times": (kw.MKLSurvival(), np.column_stack([Y0 > 0, Y0]), ValueError, "negative times"),
    "swapped": (kw.MKLSurvival(), np.column_stack([np.arange(20), Y0 > 0]), ValueError, "events first"),
    "three columns": (kw.MKLSurvival(), np.ones((20, 3)), ValueError, "survival takes two"),
    "infinite times": (kw.MKLSurvival(), np.column_stack([Y0 > 0, np.full(20, np.inf)]), ValueError, "infinity"),
    "text for times": (kw.MKLSurvival(), np.array(["a"] * 20), ValueError, "must hold numbers"),
    "survival length": (kw.MKLSurvival(), np.ones((19, 2)), ValueError, "inconsistent numbers of samples"),
    "intercept": (
        kw.MKLRegressor(solver="mirror", penalty="lp"),
        Y0,
        ValueError,
        "fit_intercept=False",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    model, y, kind, words = BAD[case]
    with pytest.raises(kind) as error:
        model.fit(X0, y)
    message = str(error.value)
    assert words in message and "\n" not in message.strip()


def test_bad_times():
    X, y = survival(30)
    model = kw.MKLSurvival(penalty="lp").fit(X, y)
    for times in ([-1.0], [[1.0]], []):
        with pytest.raises(ValueError, match="times must be"):
            model.predict_survival_function(X, times)
