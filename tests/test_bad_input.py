"""What bad input gets: one sentence, of the right kind, that names the argument and the way out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_selector
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import penalties as P

RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 1.0, size=(30, 3))
Y = np.where(X[:, 0] + 0.1 * RNG.standard_normal(30) > 0.5, "yes", "no")
FRAME = pd.DataFrame(X, columns=["age", "height", "weight"])
STACK = np.stack([X @ X.T, (X @ X.T) ** 2], axis=2)


def stack(**entries):
    """The stack with some entries replaced, by their place in it."""
    changed = STACK.copy()
    for place, value in entries.items():
        changed[tuple(int(index) for index in place.strip("_").split("_"))] = value
    return changed


def samples(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


def indefinite():
    """A symmetric stack whose second kernel has eigenvalues of both signs."""
    matrix = RNG.standard_normal((30, 30))
    return np.stack([X @ X.T, matrix + matrix.T + np.eye(30)], axis=2)


def ours(A, B):
    return A @ B.T - 2.0


def uneven(A, B):
    return A @ np.roll(B, 1, axis=1).T


# parameters of the classifier, X, what is wrong, type of the exception, fragments of its message
FIT = {
    "NaN in X": ({}, samples(np.nan), ValueError, "X contains NaN"),
    "infinity in X": ({}, samples(np.inf), ValueError, "X contains infinity"),
    "text in X": ({}, FRAME.assign(name="a"), ValueError, "columns that are not numbers: name; drop them"),
    "dates in X": ({}, FRAME.assign(day=pd.Timestamp("2020-01-01")), ValueError, "not numbers: day"),
    "one-dimensional X": ({}, X[:, 0], ValueError, "Expected 2D array"),
    "masked X": ({}, np.ma.masked_array(X, mask=X > 0.9), ValueError, "X has masked entries"),
    "masked stack": (
        {"kernels": "precomputed"},
        np.ma.masked_array(STACK, mask=STACK > 1.0),
        ValueError,
        "X has masked entries",
    ),
    "array of dates": ({}, np.full((30, 2), "2020-01-01", dtype="datetime64[D]"), ValueError, "not numbers: give"),
    "kernel overflows": (
        {"kernels": K.Polynomial(400, gamma=9.0)},
        X * 99,
        ValueError,
        "NaN or infinity on X: scale",
    ),
    "NaN in a stack": (
        {"kernels": "precomputed"},
        stack(_0_1_1=np.nan),
        ValueError,
        "kernel 1 holds NaN or infinity",
    ),
    "infinity in a stack": (
        {"kernels": "precomputed"},
        stack(_2_2_0=np.inf),
        ValueError,
        "kernel 0 holds NaN or",
    ),
    "two infinities": (
        {"kernels": "precomputed"},
        stack(_2_3_0=np.inf, _3_2_0=np.inf),
        ValueError,
        "kernel 0 holds NaN or infinity",
    ),
    "asymmetric stack": (
        {"kernels": "precomputed"},
        stack(_0_1_1=3.0),
        ValueError,
        "kernel 1 is not symmetric",
    ),
    "stack not square": (
        {"kernels": "precomputed"},
        STACK[:, :29],
        ValueError,
        "square in its first two axes",
    ),
    "stack of a matrix": (
        {"kernels": "precomputed"},
        STACK[:, :, 0],
        ValueError,
        "np.stack([K1, K2], axis=2)",
    ),
    "kernels first": (
        {"kernels": "precomputed"},
        np.moveaxis(STACK, 2, 0),
        ValueError,
        "np.moveaxis(X, 0, 2)",
    ),
    "empty stack": ({"kernels": "precomputed"}, STACK[:, :, :0], ValueError, "0 samples or kernels"),
    "stack of words": (
        {"kernels": "precomputed"},
        np.full((3, 3, 1), "a"),
        TypeError,
        "must hold real numbers",
    ),
    "complex stack": ({"kernels": "precomputed"}, STACK + 0j, TypeError, "must hold real numbers"),
    "indefinite stack": (
        {"kernels": "precomputed"},
        indefinite(),
        ValueError,
        "kernel 1 is not positive semidefinite",
    ),
    "indefinite kernel": ({"kernels": [K.Sigmoid(gamma=9.0, coef0=-9.0)]}, X, ValueError, "psd='clip'"),
    "indefinite function": ({"kernels": ours}, X, ValueError, "ours is not positive semidefinite"),
    "asymmetric function": ({"kernels": uneven}, X, ValueError, "uneven is not symmetric"),
    "all kernels zero": ({"kernels": "precomputed"}, 0 * STACK, ValueError, "Every kernel is zero"),
    "all constant": (
        {"kernels": "constant", "normalize": "center"},
        X,
        ValueError,
        "Every kernel is zero or constant",
    ),
    "unknown column": (
        {"kernels": K.RBF(on="hight")},
        FRAME,
        ValueError,
        "'hight', which X does not have; the closest",
    ),
    "column by name in an array": ({"kernels": K.RBF(on="age")}, X, ValueError, "X has no names"),
    "column out of range": (
        {"kernels": K.RBF(on=7)},
        X,
        ValueError,
        "asks for column 7, but X has 3 columns",
    ),
    "selector on an array": (
        {"kernels": K.RBF(on=make_column_selector())},
        X,
        ValueError,
        "to be a DataFrame",
    ),
    "negative X for chi2": ({"kernels": "chi2"}, X - 1.0, ValueError, "takes no negative values in X"),
    "sparse X for chi2": ({"kernels": "chi2"}, sparse.csr_array(X), TypeError, "does not take sparse data"),
    "unknown kernel": ({"kernels": "gaussian"}, X, ValueError, "the known ones are auto, chi2"),
    "no kernel": ({"kernels": []}, X, ValueError, "kernels is an empty list"),
    "number as kernel": ({"kernels": 3}, X, TypeError, "kernels takes kernels, names, functions"),
    "negative C": ({"C": -1.0}, X, ValueError, "C must be a number, above zero"),
    "C zero": ({"C": 0}, X, ValueError, "C must be a number, above zero"),
    "infinite C": ({"C": np.inf}, X, ValueError, "above zero and finite"),
    "C without a square": ({"C": 1e200}, X, ValueError, "C is 1e+200, which floating point cannot work with: use"),
    "C in words": ({"C": "1"}, X, TypeError, "C must be a number, above zero; got '1'"),
    "p below 1": (
        {"penalty": P.Lp(0.5)},
        X,
        ValueError,
        "p must be greater than 1, got 0.5: use penalty='l1'",
    ),
    "p equal to 1": ({"penalty": P.Lp(1.0)}, X, ValueError, "use penalty='l1' for p=1"),
    "prices of other kernels": (
        {"penalty": P.L1(d=[1.0, 2.0])},
        X,
        ValueError,
        "d has shape (2,) but there are 10",
    ),
    "groups of other kernels": (
        {"penalty": P.Group(["a", "b"])},
        X,
        ValueError,
        "there are 10: give one label each",
    ),
    "unknown penalty": ({"penalty": "l7"}, X, ValueError, "choose one of average, elasticnet, group, l1, lp"),
    "penalty not made": ({"penalty": P.L1}, X, TypeError, "penalty must be a name or an instance"),
    "unknown loss": ({"loss": "bent"}, X, ValueError, "choose one of cox, crammer_singer, epsilon_insensitive"),
    "loss of another task": ({"loss": "huber"}, X, ValueError, "is not for MKLClassifier: choose one of"),
    "loss of another type": ({"loss": 1}, X, TypeError, "loss must be a name or an instance"),
    "unknown solver": ({"solver": "simplex"}, X, ValueError, "choose one of auto"),
    "solver and penalty": ({"solver": "smo", "penalty": "l1"}, X, ValueError, "use solver='proximal'"),
    "penalty and solver": ({"solver": "proximal", "penalty": "lp"}, X, ValueError, "use solver='sqp'"),
    "unknown normalize": (
        {"normalize": "unit"},
        X,
        ValueError,
        "choose one of 'trace', 'diagonal', 'center', 'dimension', 'tail', None",
    ),
    "diagonal of a stack": (
        {"kernels": "precomputed", "normalize": "diagonal"},
        STACK,
        ValueError,
        "normalize='trace'",
    ),
    "diagonal of zero": (
        {"kernels": "linear", "normalize": "diagonal"},
        X * (np.arange(30) > 3)[:, None],
        ValueError,
        "does not exist for sample 0",
    ),
    "unknown psd": ({"psd": "maybe"}, X, ValueError, "choose one of 'check', 'clip', 'trust'"),
    "unknown multiclass": ({"multiclass": "ecoc"}, X, ValueError, "choose one of 'ovr', 'ovo', 'joint'"),
    "unknown class_weight": ({"class_weight": "even"}, X, ValueError, "class_weight='even' is not known"),
    "class_weight zero": (
        {"class_weight": {"yes": 0.0, "no": 1.0}},
        X,
        ValueError,
        "class_weight must be a positive",
    ),
    "class_weight in words": ({"class_weight": {"yes": "much"}}, X, TypeError, "class_weight must be a number for"),
    "tol zero": ({"tol": 0.0}, X, ValueError, "tol must be a number, above zero"),
    "max_iter in parts": ({"max_iter": 1.5}, X, TypeError, "max_iter must be a whole number"),
    "memory in words": ({"memory": "4GB"}, X, TypeError, "memory must be 'auto' or a number of bytes"),
    "too little memory": (
        {"memory": 10},
        X,
        ValueError,
        "use a larger memory= in bytes, or fewer kernels",
    ),
    "no memory to clip": (
        {"kernels": "precomputed", "psd": "clip", "memory": 10},
        STACK,
        ValueError,
        "a larger memory=",
    ),
}


@pytest.mark.parametrize(("params", "X", "error", "fragment"), FIT.values(), ids=FIT.keys())
def test_fit_refuses(params, X, error, fragment):
    rows = np.shape(X)[0]
    y = Y[:rows] if rows >= 10 else np.resize(["no", "yes"], rows)
    with pytest.raises(error) as refusal:
        kw.MKLClassifier(**params).fit(X, y)
    assert fragment in str(refusal.value)
    assert type(refusal.value) is error


TARGETS = {
    "one class": (np.full(30, "yes"), None, "only one class (yes)"),
    "one class of weight": (Y, (Y == "no").astype(float), "only one class (no)"),
    "no weight at all": (Y, np.zeros(30), "sample_weight is zero for every row"),
    "measurements": (X[:, 0], None, "continuous"),
    "too few labels": (Y[:20], None, "inconsistent numbers of samples"),
    "missing label": (np.where(Y == "yes", 1.0, np.nan), None, "NaN"),
    "no label for some": (np.where(Y == "yes", "yes", None), None, "no label, but None, for"),
    "words and numbers": (np.array([1, "a"] * 15, dtype=object), None, "labels of several types (int, str)"),
    "masked labels": (np.ma.masked_array(Y, mask=Y == "no"), None, "y has masked entries"),
    "masked weights": (Y, np.ma.masked_array(np.ones(30), mask=Y == "no"), "sample_weight has masked entries"),
    "weight in words": (Y, "balanced", "sample_weight must hold one number for each sample"),
    "huge weights": (Y, np.full(30, 1e300), "sample_weight goes from 1e+300 to 1e+300"),
    "tiny weights": (Y, np.where(Y == "no", 1e-320, 1.0), "and 0 to samples that do not count"),
    "no labels": (None, None, "requires y to be passed"),
    "negative weight": (Y, np.where(Y == "no", -1.0, 1.0), "sample_weight holds negative values"),
    "weight of other rows": (Y, np.ones(7), "sample_weight"),
    "weight not a number": (Y, np.full(30, np.nan), "sample_weight contains NaN"),
}


@pytest.mark.parametrize("kernels", ["auto", "precomputed"])
@pytest.mark.parametrize(("y", "weight", "fragment"), TARGETS.values(), ids=TARGETS.keys())
def test_fit_refuses_targets(y, weight, fragment, kernels):
    with pytest.raises(ValueError) as refusal:
        kw.MKLClassifier(kernels).fit(X if kernels == "auto" else STACK, y, sample_weight=weight)
    assert fragment in str(refusal.value)


# kernels, X to fit on, X to predict, type of the exception, fragment of its message
PREDICT = {
    "columns": ("auto", X, X[:, :2], ValueError, "X has 2 features, but MKLClassifier is expecting 3"),
    "names": ("auto", FRAME, FRAME.rename(columns={"age": "years"}), ValueError, "feature names"),
    "NaN": ("auto", X, samples(np.nan), ValueError, "X contains NaN"),
    "text": ("auto", FRAME, FRAME.assign(age="old"), ValueError, "columns that are not numbers: age"),
    "training samples": ("precomputed", STACK, STACK[:5, :29], ValueError, "(n_new, 30, 2)"),
    "kernels": ("precomputed", STACK, STACK[:5, :, :1], ValueError, "each of the 2 kernels; got (5, 30, 1)"),
    "a matrix": ("precomputed", STACK, STACK[:5, :, 0], ValueError, "(n_new, 30, 2)"),
    "NaN in a stack": ("precomputed", STACK, STACK + np.nan, ValueError, "NaN or infinite kernel values"),
    "words in a stack": ("precomputed", STACK, np.full((1, 30, 2), "a"), TypeError, "must hold real numbers"),
}


@pytest.mark.parametrize(("kernels", "X", "new", "error", "fragment"), PREDICT.values(), ids=PREDICT.keys())
def test_predict_refuses(kernels, X, new, error, fragment):
    model = kw.MKLClassifier(kernels, penalty="lp").fit(X, Y)
    with pytest.raises(error) as refusal:
        model.predict(new)
    assert fragment in str(refusal.value)


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_predict_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(kw.MKLClassifier(), method)(X)


@pytest.mark.parametrize("method", ["summary", "certificate"])
def test_report_before_fit(method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(kw.MKLClassifier(), method)()


ZERO = {
    "zero kernel in a stack": ("precomputed", np.concatenate([0 * STACK, STACK], axis=2), "trace", [0, 1]),
    "zero column": ([*K.linear(on="each"), "rbf"], X * [1, 0, 1], "trace", [1]),
    "zero column as it is": ([*K.linear(on="each"), "rbf"], X * [1, 0, 1], None, [1]),
    "constant, centred": (["rbf", "constant"], X, "center", [1]),
    "constant column, centred": ([*K.rbf(gamma=1.0, on="each")], X * [1, 1, 0], "center", [2]),
}


@pytest.mark.parametrize(("kernels", "X", "normalize", "dropped"), ZERO.values(), ids=ZERO.keys())
def test_zero_kernels_are_named_and_get_weight_zero(kernels, X, normalize, dropped):
    model = kw.MKLClassifier(kernels, normalize=normalize, penalty=P.Lp(2.0))
    with pytest.warns(UserWarning, match="get weight 0") as caught:
        model.fit(X, Y)
    assert len(caught) == 1
    assert all(model.kernel_names_[k] in str(caught[0].message) for k in dropped)
    assert list(np.flatnonzero(model.weights_ == 0)) == dropped
    assert list(np.flatnonzero(model.kernel_scales_ == 0)) == dropped


def test_too_few_steps_warn_with_the_gap_and_the_way_out():
    model = kw.MKLClassifier(penalty="lp", max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match=r"gap reached .* not tol=1e-09.*raise max_iter"):
        model.fit(X, Y)
    assert model.dual_gap_ > 1e-9
    assert "max_iter" in model.status_


@pytest.mark.parametrize(
    ("C", "error", "fragment"),
    [
        ([], ValueError, "C is empty"),
        ([1.0, -1.0], ValueError, "every entry of C must be a number, above zero"),
        (["a"], TypeError, "every entry of C must be a number"),
    ],
)
def test_path_refuses(C, error, fragment):
    with pytest.raises(error, match=fragment):
        kw.path(kw.MKLClassifier(), X, Y, C=C)


def test_path_takes_no_pipeline():
    with pytest.raises(TypeError, match="must be a MKLClassifier, on its own; got Pipeline"):
        kw.path(make_pipeline(kw.MKLClassifier()), X, Y, C=[1.0])


def test_unknown_recipe_lists_the_known_ones():
    with pytest.raises(ValueError, match="'skn' is not known: use 'skm', or choose one of skm"):
        kw.recipe("skn")


@pytest.mark.parametrize("size", [1e160, 1e-160])
def test_targets_without_squares_are_refused(size):
    with pytest.raises(ValueError, match=r"y has entries of size .* rescale y"):
        kw.MKLRegressor().fit(X, size * X[:, 0])
