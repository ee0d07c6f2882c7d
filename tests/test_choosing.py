"""Choosing by cross-validation: the same as a grid search over kernels computed beforehand, and what is around it."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.assemble import fold_of
from kernelweave.estimators.choosing import PRICES, Race, automatic, read_candidates, read_costs

BANK = [K.RBF(gamma=0.02), K.RBF(gamma=0.3), K.Linear()]
COSTS = [0.1, 1.0, 10.0]
TRIED = [
    {"penalty": "uniform"},
    {"penalty": "l1"},
    {"penalty": kw.penalties.Lp(1.5), "normalize": kw.EffectiveDimension(0.5)},
    {"penalty": "l1", "normalize": kw.TailSum(3)},
    {"penalty": "alignment", "normalize": "center"},
    {"penalty": "spectral"},
]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def wine(classes=3):
    X, y = load_wine(return_X_y=True)
    keep = y < classes
    return StandardScaler().fit_transform(X[keep]), y[keep]


def stacked(X, bank=BANK):
    return np.stack([kernel(X) for kernel in bank], axis=2)


def grid(model, X, y, tried, cv, **settings):
    """Return mean scores of an ordinary grid search, candidates first."""
    rows = []
    for one in tried:
        search = GridSearchCV(clone(model).set_params(**one), {"C": COSTS}, cv=cv, **settings).fit(X, y)
        rows.append(search.cv_results_["mean_test_score"])
    return np.array(rows)


@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_a_grid_search(classes):
    X, y = wine(classes)
    settings = {"tol": 1e-9, "psd": "trust"}
    model = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=TRIED, cv=FOLDS, drop=False, **settings).fit(X, y)
    expected = grid(kw.MKLClassifier("precomputed", **settings), stacked(X), y, TRIED, FOLDS)
    assert_allclose(model.cv_results_["mean_test_score"].reshape(expected.shape), expected, rtol=1e-6)
    best = np.unravel_index(np.argmax(expected), expected.shape)
    assert model.best_index_ == best[0] * len(COSTS) + best[1]
    assert model.best_score_ == pytest.approx(expected[best])


def test_scores_of_regression_are_those_of_a_grid_search():
    X, y = load_diabetes(return_X_y=True)
    X, y = StandardScaler().fit_transform(X[:150]), y[:150]
    tried = [one for one in TRIED if one["penalty"] not in ("alignment", "spectral")]
    settings = {"tol": 1e-9, "psd": "trust"}
    model = kw.MKLRegressorCV(BANK, Cs=COSTS, candidates=tried, cv=3, drop=False, **settings).fit(X, y)
    expected = grid(kw.MKLRegressor("precomputed", **settings), stacked(X), y, tried, 3)
    assert_allclose(model.cv_results_["mean_test_score"].reshape(expected.shape), expected, rtol=1e-6)


def test_candidates_of_another_loss_are_those_of_a_grid_search_and_refitted():
    X, y = wine(3)
    tried = [
        {"penalty": "uniform"},
        {"penalty": "uniform", "loss": "squared"},
        {"penalty": "l1", "normalize": "dimension", "loss": "squared_hinge", "name": "rounded"},
    ]
    settings = {"tol": 1e-9, "psd": "trust"}
    model = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=tried, cv=FOLDS, drop=False, **settings).fit(X, y)
    plain = [{name: value for name, value in one.items() if name != "name"} for one in tried]
    expected = grid(kw.MKLClassifier("precomputed", loss="hinge", **settings), stacked(X), y, plain[:1], FOLDS)
    for one in plain[1:]:
        more = grid(kw.MKLClassifier("precomputed", **settings), stacked(X), y, [one], FOLDS)
        expected = np.concatenate([expected, more])
    assert_allclose(model.cv_results_["mean_test_score"].reshape(expected.shape), expected, rtol=1e-6)
    one = kw.MKLClassifierCV(BANK, Cs=[2.0], candidates=tried[1:2], cv=2).fit(X, y)
    assert one.best_params_["loss"] == "squared" and one.loss == "hinge" and one.solver_ == "direct"
    assert "loss squared" in one.summary().splitlines()[0]
    again = kw.MKLClassifier(BANK, **one.best_params_).fit(X, y)
    assert_allclose(one.decision_function(X), again.decision_function(X), rtol=1e-8, atol=1e-10)
    assert_allclose(pickle.loads(pickle.dumps(one)).decision_function(X), one.decision_function(X))
    one.set_params(candidates=["uniform"]).fit(X, y)
    assert "loss" not in one.best_params_ and one.solver_ != "direct"
    assert str(read_candidates(tried[1:], ["a", "b"])[0]) == "uniform, squared"
    with pytest.raises(ValueError, match="loss"):
        read_candidates([{"penalty": "l1", "loss": "none such"}], ["a", "b"])


def test_least_squares_are_tried_by_default_on_several_classes_of_svms_on_stored_kernels():
    def tried(classes, **settings):
        X, y = wine(classes)
        model = kw.MKLClassifierCV(BANK, Cs=[1.0], cv=2, **settings).fit(X, y)
        return "squared loss, average by dimension" in model.cv_results_["param_candidate"]

    assert tried(3)
    assert not tried(2)
    for settings in ({"loss": "logistic"}, {"multiclass": "joint"}, {"solver": "sqp"}, {"approximation": "nystroem"}):
        assert not tried(3, **settings)


@pytest.mark.parametrize("candidate", TRIED, ids=lambda one: f"{one['penalty']}-{one.get('normalize')}")
def test_the_answer_is_that_of_an_ordinary_fit(candidate):
    X, y = wine(2)
    model = kw.MKLClassifierCV(BANK, Cs=[2.0], candidates=[candidate], cv=2).fit(X, y)
    plain = kw.MKLClassifier(BANK, **model.best_params_).fit(X, y)
    assert_allclose(model.decision_function(X), plain.decision_function(X), rtol=1e-8, atol=1e-10)
    assert_allclose(model.weights_, plain.weights_, rtol=1e-8)
    assert model.dual_gap_ == plain.dual_gap_ <= 1e-3
    assert "2" in model.summary()


def test_a_stack_is_as_good_as_samples():
    X, y = wine()
    settings = {"Cs": COSTS, "candidates": ["uniform", "l1"], "cv": FOLDS}
    one = kw.MKLClassifierCV(BANK, **settings).fit(X, y)
    other = kw.MKLClassifierCV("precomputed", **settings).fit(stacked(X), y)
    for name in ("mean_test_score", "split2_test_score"):
        assert_allclose(one.cv_results_[name], other.cv_results_[name])
    assert_allclose(one.decision_function(X), other.decision_function(stacked(X)), atol=1e-6)


@pytest.mark.parametrize("normalize", ["trace", "dimension"])
def test_products_on_features_of_full_rank_score_as_kernels_do(normalize):
    X, y = wine(2)
    tried = [{"penalty": "spectral", "normalize": normalize}]
    settings = {"Cs": COSTS, "candidates": tried, "cv": FOLDS, "scoring": "neg_brier_score", "loss": "logistic"}
    stored = kw.MKLClassifierCV(BANK, tol=1e-6, **settings).fit(X, y)
    features = kw.MKLClassifierCV(BANK, tol=1e-6, approximation=kw.Nystroem(rank=len(X)), random_state=0, **settings)
    scores = features.fit(X, y).cv_results_["mean_test_score"]
    assert_allclose(scores, stored.cv_results_["mean_test_score"], rtol=1e-2)


def test_features_and_kernels_on_demand():
    X, y = wine()
    settings = {"Cs": COSTS, "candidates": ["uniform", {"penalty": "l1", "normalize": "dimension"}], "cv": FOLDS}
    settings["drop"] = False
    stored = kw.MKLClassifierCV(BANK, **settings).fit(X, y)
    features = kw.MKLClassifierCV(BANK, approximation=kw.Nystroem(rank=60), random_state=0, **settings).fit(X, y)
    demand = kw.MKLClassifierCV(BANK, memory=2e5, **settings).fit(X, y)
    assert "on demand" in demand.storage_
    assert_allclose(demand.cv_results_["mean_test_score"], stored.cv_results_["mean_test_score"], atol=0.02)
    assert_allclose(features.cv_results_["mean_test_score"], stored.cv_results_["mean_test_score"], atol=0.05)
    plain = kw.MKLClassifier(BANK, approximation=kw.Nystroem(rank=60), random_state=0, **features.best_params_)
    assert_allclose(plain.fit(X, y).decision_function(X), features.decision_function(X), rtol=1e-7, atol=1e-9)


def test_tensors():
    torch = pytest.importorskip("torch")
    X, y = wine()
    model = kw.MKLClassifierCV(BANK, Cs=[1.0, 10.0], candidates=["uniform", "l1"], cv=2, approximation="nystroem")
    model.set_params(random_state=0, tol=1e-6)
    there = clone(model).fit(torch.tensor(X), torch.tensor(y))
    here = clone(model).fit(X, y)
    assert there.best_params_["C"] == here.best_params_["C"]
    assert_allclose(there.decision_function(torch.tensor(X)).numpy(), here.decision_function(X), atol=1e-2)


def test_weights_of_samples_are_repeats():
    X, y = wine(2)
    counts = np.random.default_rng(0).integers(0, 3, y.size)
    rows = np.repeat(np.arange(y.size), counts)
    half = np.arange(y.size) % 2
    settings = {"Cs": COSTS, "candidates": ["uniform", "l1"], "tol": 1e-8}
    splits = [(np.flatnonzero(half == s), np.flatnonzero(half != s)) for s in (0, 1)]
    weighted = kw.MKLClassifierCV(BANK[:2], cv=splits, **settings).fit(X, y, sample_weight=counts)
    splits = [(np.flatnonzero(half[rows] == s), np.flatnonzero(half[rows] != s)) for s in (0, 1)]
    repeated = kw.MKLClassifierCV(BANK[:2], cv=splits, **settings).fit(X[rows], y[rows])
    assert_allclose(weighted.cv_results_["mean_test_score"], repeated.cv_results_["mean_test_score"])
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)


def test_groups_scoring_pipelines_and_nesting():
    X, y = wine(2)
    groups = np.arange(y.size) % 10
    scoring = make_scorer(matthews_corrcoef)
    model = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=["uniform"], cv=GroupKFold(5), scoring=scoring)
    model.set_params(tol=1e-8).fit(X, y, groups=groups)
    tried = [{"penalty": "uniform"}]
    search = GridSearchCV(kw.MKLClassifier("precomputed", penalty="uniform", tol=1e-8), {"C": COSTS}, cv=GroupKFold(5))
    search.set_params(scoring=scoring).fit(stacked(X), y, groups=groups)
    assert_allclose(model.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])
    plain = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=tried, cv=3)
    assert cross_val_score(make_pipeline(StandardScaler(), plain), X, y, cv=3).mean() > 0.9
    again = pickle.loads(pickle.dumps(plain.fit(X, y)))
    assert_allclose(again.decision_function(X), plain.decision_function(X))
    assert not hasattr(clone(again), "best_params_")
    with_auc = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=["l1"], scoring="roc_auc").fit(X, y)
    assert with_auc.best_score_ > 0.95


def test_threads_and_progress_change_nothing(capfd):
    X, y = wine(2)
    settings = {"Cs": COSTS, "candidates": ["uniform", "l1"], "cv": 3}
    one = kw.MKLClassifierCV(BANK, **settings).fit(X, y)
    two = kw.MKLClassifierCV(BANK, n_jobs=2, progress=True, **settings).fit(X, y)
    assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert "candidates by folds" in capfd.readouterr().err


def test_survival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    time, event = rng.exponential(np.exp(-X[:, 0])), rng.random(90) < 0.8
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", "?"), ("time", "<f8")])
    model = kw.MKLSurvivalCV(BANK, Cs=[0.01, 0.1], candidates=["uniform", "l1"], cv=KFold(3), drop=False).fit(X, y)
    search = GridSearchCV(
        kw.MKLSurvival("precomputed", psd="trust", penalty="uniform"), {"C": [0.01, 0.1]}, cv=KFold(3)
    ).fit(stacked(X), y)
    assert_allclose(model.cv_results_["mean_test_score"][:2], search.cv_results_["mean_test_score"], atol=1e-2)
    assert model.predict_survival_function(X[:2], [0.5]).shape == (2, 1)


def test_kernels_that_are_zero_do_not_upset_penalties_with_an_entry_for_each():
    X, y = wine(2)
    X = np.column_stack([X, np.zeros(y.size)])
    bank = [K.Linear(on=[13]), K.Linear(on=[0, 1]), K.RBF(gamma=0.1)]
    tried = ["single", kw.penalties.L1([1.0, 2.0, 3.0]), kw.penalties.Fixed([1.0, 2.0, 3.0])]
    with pytest.warns(UserWarning, match="get weight 0: linear on column 13"):
        model = kw.MKLClassifierCV(bank, Cs=COSTS, candidates=tried, cv=2, tol=1e-8, drop=False).fit(X, y)
    names = model.cv_results_["param_candidate"][:: len(COSTS)].tolist()
    assert names[:2] == [f"{name} alone" for name in model.kernel_names_[1:]]
    plain = kw.MKLClassifierCV(bank[1:], Cs=COSTS, candidates=["single", kw.penalties.L1([2.0, 3.0])], cv=2, drop=False)
    plain.set_params(tol=1e-8).fit(X, y)
    assert_allclose(plain.cv_results_["mean_test_score"], model.cv_results_["mean_test_score"][:9])


def test_threads_leave_the_filters_of_warnings_as_they_are():
    X, y = wine(2)
    before = list(warnings.filters)
    kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["uniform", "l1", "lp"] * 4, cv=2, n_jobs=2).fit(X, y)
    assert warnings.filters == before


@pytest.mark.parametrize("normalize", ["trace", "center", None])
def test_sizes_of_features_on_folds_are_those_of_kernels(normalize):
    X, y = wine(2)
    tried = [{"penalty": "lp", "normalize": normalize}]
    settings = {"Cs": COSTS, "candidates": tried, "cv": FOLDS, "tol": 1e-7, "scoring": margins}
    stored = kw.MKLClassifierCV(BANK, **settings).fit(X, y)
    features = kw.MKLClassifierCV(BANK, approximation=kw.Nystroem(rank=y.size), random_state=0, **settings).fit(X, y)
    assert_allclose(features.cv_results_["mean_test_score"], stored.cv_results_["mean_test_score"], rtol=1e-4)


def margins(model, X, y):
    return float(np.mean(np.where(y == model.classes_[1], 1, -1) * model.decision_function(X)))


class ByFirstColumn:
    """Two folds, by the sign of the first column."""

    def split(self, X, y=None, groups=None):
        side = X[:, 0] > 0
        yield np.flatnonzero(side), np.flatnonzero(~side)
        yield np.flatnonzero(~side), np.flatnonzero(side)

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


def test_folds_follow_one_another_in_the_same_memory(monkeypatch):
    X, y = wine()
    made, places = [], []

    def noted(assembly, train, test, room=None):
        fold, alone = fold_of(assembly, train, test, room), fold_of(assembly, train, test)
        assert np.array_equal(fold.samples, alone.samples) and np.array_equal(fold.test, alone.test)
        assert not np.shares_memory(fold.test, fold.samples)
        made.append(fold.test)
        places.append((fold.samples.ctypes.data, fold.samples.shape[0]))
        return fold

    monkeypatch.setattr("kernelweave.estimators.choosing.fold_of", noted)
    cv = [(np.arange(k % 2, 178 - k), np.arange(178 - k, 178)) for k in (40, 31, 50)]
    model = kw.MKLClassifierCV(BANK, Cs=COSTS, candidates=["uniform", "l1"], cv=cv).fit(X, y)
    assert len({place for place, _ in places}) == 1 and len({size for _, size in places}) == 3
    assert not any(np.shares_memory(one, other) for i, one in enumerate(made) for other in made[:i])
    assert model.dual_gap_ <= 1e-3


def test_splitters_see_the_samples_and_metrics_need_not_know_weights():
    X, y = wine(3)
    X = X[:, ::-1]
    scoring = make_scorer(lambda truth, guess: float(np.mean(truth == guess)))
    model = kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["uniform"], cv=ByFirstColumn(), scoring=scoring)
    assert model.fit(X, y, sample_weight=np.linspace(1, 2, y.size)).best_score_ > 0.3


def test_probabilities_of_what_was_chosen():
    """Their cross-validation refits what was chosen: it has no groups, and other folds than those given."""
    X, y = wine(2)
    settings = {"Cs": [1.0], "candidates": ["l1"], "probability": True}
    halves = [(np.arange(0, y.size, 2), np.arange(1, y.size, 2))]
    for cv, groups in ((GroupKFold(3), np.arange(y.size) % 7), (halves, None)):
        model = kw.MKLClassifierCV(BANK, cv=cv, **settings).fit(X, y, groups=groups)
        plain = kw.MKLClassifier(BANK, probability=True, **model.best_params_).fit(X, y)
        assert_allclose(model.predict_proba(X), plain.predict_proba(X))


# -- the race --


def test_what_is_clearly_behind_is_dropped_and_the_best_is_not():
    rng = np.random.default_rng(0)
    means = np.array([[0.90, 0.92], [0.50, 0.55], [0.91, 0.90]])
    race = Race(means[:, :, None] + 0.01 * rng.normal(size=(3, 2, 5)), np.zeros((2, 3, 2, 5)))
    race.drop(1)
    assert race.alive.all()
    race.drop(2)
    assert race.alive.all(axis=1).tolist() == [True, False, True]
    race.scores[1, :, 2:] = np.nan
    assert race.best("best")[0] in (0, 2)


def test_single_costs_are_dropped_where_the_best_is_looked_for():
    means = np.array([[0.90, 0.50, 0.91], [0.52, 0.51, 0.50]])
    scores = means[:, :, None] + 0.01 * np.random.default_rng(0).normal(size=(2, 3, 5))
    each, whole = (Race(scores, np.zeros((2, 2, 3, 5))) for _ in range(2))
    each.drop(2)
    whole.drop(2, each=False)
    assert each.alive.tolist() == [[True, False, True], [False] * 3]
    assert whole.alive.tolist() == [[True] * 3, [False] * 3]
    each.drop(3)
    assert each.alive.tolist() == [[True, False, True], [False] * 3]


def test_settings_that_are_the_best_once_more_do_not_make_others_lose():
    scores = np.full((1, 8, 5), 0.9) + 1e-7 * np.random.default_rng(0).normal(size=(1, 8, 5))  # large costs are alike
    scores[0, 0] = [0.88, 0.88, 0.96, 0.96, 0.96]
    scores[0, 1] = [0.85, 0.95, 0.85, 0.95, 0.85]
    scores[0, 2] = 0.5
    race = Race(scores, np.zeros((2, 1, 8, 5)))
    race.drop(2)
    assert race.alive[0].tolist() == [True, True, False] + [True] * 5
    assert race.best("best") == (0, 0)


@pytest.mark.parametrize("rule", ["best", "one-se"])
def test_what_is_dropped_changes_no_choice(rule):
    X, y = wine(2)
    settings = {"Cs": [1e-4, 1e-3, 1.0, 10.0], "candidates": ["uniform", "l1"], "cv": 5, "rule": rule}
    X = X + 2.0 * np.random.default_rng(0).normal(size=X.shape)
    model, whole = (kw.MKLClassifierCV(BANK, drop=drop, **settings).fit(X, y) for drop in (True, False))
    assert model.best_params_ == whole.best_params_
    seen = np.isfinite(model.cv_results_["mean_test_score"])
    assert_allclose(model.cv_results_["mean_test_score"][seen], whole.cv_results_["mean_test_score"][seen], atol=0.02)
    assert seen[model.best_index_] and (seen.all() if rule == "one-se" else not seen.all())


def test_level_settings_are_chosen_in_the_order_given():
    race = Race(np.full((2, 3, 4), 0.8), np.zeros((2, 2, 3, 4)))
    assert race.best("best") == (0, 0)
    race.scores[1, 1] += np.array([0.0, 0.1, 0.0, 0.1])
    assert race.best("best") == (1, 1)
    race.scores[1, 1] = [0.8, 0.8, 0.8, 0.9]
    assert race.best("one-se") == (0, 0)


def test_kernels_that_fit_anything_are_not_chosen():
    """Labels that a smooth kernel explains, and a kernel that is nearly the identity: l1 alone prefers that one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    y = (X[:, 0] + X[:, 1] + 1.5 * rng.normal(size=600) > 0).astype(int)
    bank, train, test = [K.Linear(), K.RBF(gamma=2.0)], slice(0, 100), slice(100, None)
    greedy = kw.MKLClassifier(bank, C=100.0).fit(X[train], y[train])
    model = kw.MKLClassifierCV(bank, Cs=[0.1, 100.0], cv=FOLDS).fit(X[train], y[train])
    assert greedy.weights_[1] > 0.5
    assert model.score(X[test], y[test]) >= greedy.score(X[test], y[test])
    tamed = kw.MKLClassifier(bank, C=1.0, normalize="dimension").fit(X[train], y[train])
    assert tamed.weights_[1] < kw.MKLClassifier(bank, C=1.0).fit(X[train], y[train]).weights_[1]


# -- sizes by complexity --


def test_factors_on_some_samples_are_about_those_on_all(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 3))
    gram = kw.DenseGram(stacked(X, [K.RBF(gamma=0.05), K.RBF(gamma=1.0), K.RBF(gamma=30.0), K.Linear()]))
    whole = kw.EffectiveDimension().factors(gram, np.ones(400))
    monkeypatch.setattr(kw.EffectiveDimension, "_look", 200)
    assert_allclose(kw.EffectiveDimension().factors(gram, np.ones(400)), whole, rtol=0.15)


def test_effective_dimension_is_that_of_the_spectrum():
    X = np.random.default_rng(0).normal(size=(50, 3))
    kernel = K.RBF(gamma=0.3)(X)
    centre = np.eye(50) - 1 / 50
    values = np.linalg.eigvalsh(centre @ kernel @ centre)
    found = kw.EffectiveDimension(2.0).of(kernel, np.full(50, 1 / 50), 50)
    assert found == pytest.approx((values.sum() ** 2 / (values**2).sum()) ** 2)


# -- what is refused --


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"candidates": "l1"}, "candidates must be"),
        ({"candidates": []}, "candidates must be"),
        ({"candidates": [{"normalize": "tail"}]}, "a dict has 'penalty'"),
        ({"candidates": ["nonsense"]}, "nonsense"),
        ({"candidates": [{"penalty": "l1", "normalize": "nonsense"}]}, "normalize='nonsense' is not known"),
        ({"Cs": []}, "Cs must be"),
        ({"Cs": [1.0, -1.0]}, "Cs must be"),
        ({"Cs": 0}, "Cs must be"),
        ({"rule": "nonsense"}, "rule='nonsense' is not known"),
        ({"cv": 100}, "n_splits=100"),
        ({"cv": [(range(100), range(30)), (range(9), range(130))]}, "In fold 2 of cv: y holds only one"),
        ({"scoring": ["accuracy", "f1"]}, "scoring must be one name or one callable"),
        ({"scoring": lambda model, X, y: np.nan}, "scoring is NaN for every setting"),
        ({"Cs": "auto"}, "Cs must be"),
        ({"Cs": True}, "Cs must be"),
        ({"candidates": [{"penalty": "l1", "normalize": "diagonal"}]}, "normalize='diagonal', which is not a size"),
        ({"candidates": [{"penalty": "l1", "normalize": kw.EffectiveDimension(-1)}]}, "power must be"),
        ({"candidates": [{"penalty": "l1", "normalize": kw.TailSum(1.5)}]}, "keep must be"),
    ],
    ids=lambda part: part if isinstance(part, str) else ", ".join(part),
)
def test_refusals(settings, words):
    X, y = wine(2)
    with pytest.raises((ValueError, TypeError), match=words):
        kw.MKLClassifierCV(BANK, **{"Cs": COSTS, **settings}).fit(X, y)


def test_probabilities_in_scores_need_a_loss_that_has_them():
    X, y = wine(2)
    settings = {"Cs": [1.0], "candidates": ["l1"], "scoring": "neg_log_loss", "cv": 2}
    assert kw.MKLClassifierCV(BANK, loss="logistic", **settings).fit(X, y).best_score_ < 0
    with pytest.raises(ValueError, match=r"scoring='neg_log_loss' asks for odds.*use loss='logistic'"):
        kw.MKLClassifierCV(BANK, **settings).fit(X, y)
    with pytest.raises(AttributeError, match="'MKLClassifier' object has no attribute 'nonsense'"):
        kw.MKLClassifierCV(BANK, **{**settings, "scoring": lambda model, X, y: model.nonsense}).fit(X, y)


def test_unfinished_fits_are_told_once():
    X, y = wine(2)
    model = kw.MKLClassifierCV(BANK, Cs=[10.0], candidates=["l1"], cv=2, tol=1e-12, max_iter=1)
    with pytest.warns(ConvergenceWarning) as seen:
        model.fit(X, y)
    told = [str(one.message) for one in seen if "of the cross-validation" in str(one.message)]
    assert len(told) == 1
    assert told[0].startswith("In 2 fits of the cross-validation the relative duality gap missed tol=1e-12")


def test_the_loss_chosen_says_whether_there_are_odds():
    X, y = wine(2)
    given = {"Cs": [1.0], "cv": 2}
    odds = kw.MKLClassifierCV(BANK, candidates=[{"penalty": "uniform", "loss": "logistic"}], **given).fit(X, y)
    assert np.allclose(odds.predict_proba(X).sum(axis=1), 1.0)
    least = [{"penalty": "uniform", "loss": "squared"}]
    none = kw.MKLClassifierCV(BANK, candidates=least, loss="logistic", **given).fit(X, y)
    with pytest.raises(AttributeError, match=r"predict_proba"):
        none.predict_proba(X)


def test_losses_of_candidates_are_refused_by_name():
    X, y = wine(2)
    with pytest.raises(ValueError, match=r"candidates holds uniform, huber, but loss='huber' is not for MKLClassifier"):
        kw.MKLClassifierCV(BANK, candidates=[{"penalty": "uniform", "loss": "huber"}]).fit(X, y)
    survival = kw.MKLSurvivalCV(BANK, candidates=[{"penalty": "uniform", "loss": "squared"}])
    with pytest.raises(ValueError, match=r"candidates holds uniform, squared, and MKLSurvivalCV has one loss: leave"):
        survival.fit(X, np.stack([np.ones(len(X)), 1.0 + np.arange(len(X))], axis=1))


def test_a_refit_that_is_refused_leaves_a_model_that_can_be_looked_at():
    X, y = wine(2)
    model = kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["uniform"], cv=2).fit(X, y)
    with pytest.raises(ValueError, match="candidates"):
        model.set_params(candidates=[]).fit(X, y)
    assert "MKLClassifierCV" in str(model.summary())


def test_the_hinge_is_the_hinge_by_name_and_as_an_instance():
    X, y = load_iris(return_X_y=True)
    tried = [
        kw.MKLClassifierCV(BANK, Cs=[1.0], cv=2, loss=loss).fit(X, y).cv_results_["param_candidate"].tolist()
        for loss in ("hinge", kw.losses.Hinge())
    ]
    assert tried[0] == tried[1] and any("squared loss" in str(one) for one in tried[0])


def test_reading():
    assert read_costs(3) == pytest.approx([0.01, 10**0.5, 1000.0])
    assert read_costs([3.0, 1.0, 3.0]).tolist() == [1.0, 3.0]
    assert [str(one) for one in read_candidates(["single"], ["a", "b"])] == ["a alone", "b alone"]
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["single"], cv=2).fit(X, y)
    assert np.count_nonzero(model.weights_[0]) == 1


@pytest.mark.parametrize(("pairs", "chosen"), [(True, "pairs at"), (False, "columns alone")])
def test_the_price_of_pairs_is_chosen(pairs, chosen):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = (X[:, 0] * X[:, 1] if pairs else X[:, 0]) + 0.3 * rng.normal(size=150)
    given = {"approximation": "explicit", "tol": 1e-4}
    model = kw.MKLRegressorCV("effects", Cs=[0.1, 1.0], cv=3, **given).fit(X, y)
    assert model.best_candidate_.startswith(chosen)
    assert list(dict.fromkeys(map(str, model.cv_results_["param_candidate"]))) == [*PRICES.values()]
    used = {name for name, weight in zip(model.kernel_names_, model.weights_, strict=True) if weight > 0}
    assert any(" * " in name for name in used) == pairs
    if not pairs:  # a price out of reach is the same as no pairs
        alone = kw.MKLRegressor(K.effects(degree=1), C=model.C, **given).fit(X, y)
        assert np.allclose(model.predict(X), alone.predict(X), atol=1e-2)
        assert abs(model.objective_ - alone.objective_) <= 2e-4 * alone.objective_


def test_columns_alone_get_no_help_from_pairs():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 10)  # where single columns say nothing at all
    model = kw.MKLClassifierCV("effects", approximation="explicit", cv=5, Cs=[1.0, 100.0]).fit(X, X[:, 0] != X[:, 1])
    assert model.best_candidate_.startswith("pairs at") and model.best_score_ == 1.0


def test_effects_of_single_columns_are_weighed_by_l1():
    assert [str(one) for one in automatic(2, np.ones(2))] == ["L1()"]
