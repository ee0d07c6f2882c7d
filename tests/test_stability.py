"""How often kernels are selected: halves, bounds, decoys, clusters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

import kernelweave as kw
from kernelweave import kernels as K


def problem(seed, n=120, d=12, relevant=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, :relevant].sum(axis=1) + 0.5 * rng.normal(size=n) > 0).astype(int)
    return X, y


def test_relevant_kernels_are_selected_and_few_others():
    X, y = problem(0)
    found = kw.stability(kw.MKLClassifier(K.linear(on="each"), C=0.1), X, y, n_resamples=30, random_state=0)
    assert found.selected[:2].all()
    assert found.selected[2:].sum() <= max(found.bound, 1)
    assert found.frequencies.shape == (12,)
    assert found.weights.shape == (30, 12)
    assert found.average_selected == pytest.approx((found.weights > 0).sum(axis=1).mean())
    assert found.bound == pytest.approx(found.average_selected**2 / (12 * 0.5))
    text = str(found)
    assert "selected in 75 % of the halves or more" in text
    assert "linear on column 0*" in text


def test_false_selections_stay_below_the_bound():
    """Over repetitions, kernels that know nothing are selected less often than the bound says."""
    wrong, bounds = [], []
    for seed in range(8):
        X, y = problem(seed, n=80, d=10)
        model = kw.MKLClassifier(K.linear(on="each"), C=0.05, tol=1e-2)
        found = kw.stability(model, X, y, n_resamples=20, threshold=0.9, random_state=seed)
        wrong.append(found.selected[2:].sum())
        bounds.append(found.bound)
    assert np.mean(wrong) <= np.mean(bounds)
    assert np.mean(bounds) < 10  # a bound that could be violated


def test_halves_are_disjoint_and_stratified():
    X, y = load_iris(return_X_y=True)
    seen = []
    model = kw.MKLClassifier([K.Linear(), K.RBF()], tol=1e-2)
    original = type(model)._prepare_fold

    def spy(self, fold, targets, weight):
        seen.append(np.asarray(targets))
        return original(self, fold, targets, weight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_prepare_fold", spy)
        kw.stability(model, X, y, n_resamples=4, random_state=0)
    assert len(seen) == 4
    for one, other in zip(seen[::2], seen[1::2], strict=True):
        assert one.size + other.size == 150
        assert_allclose(np.bincount(one) + np.bincount(other), 50)
        assert np.all(np.abs(np.bincount(one) - 25) <= 1)


def test_twins_are_in_one_cluster_and_groups_are_counted():
    X, y = problem(1, d=4)
    X[:, 1] = X[:, 0] + 0.01 * np.random.default_rng(0).normal(size=len(X))
    bank = [K.Linear(on=[j], group="first" if j < 2 else "rest") for j in range(4)]
    found = kw.stability(kw.MKLClassifier(bank, C=0.1), X, y, n_resamples=10, random_state=0)
    assert found.clusters[0] == found.clusters[1] not in found.clusters[2:]
    assert found.group_frequencies["first"] == 1.0
    assert set(found.group_frequencies) == {"first", "rest"}


def test_decoys_paths_and_other_tasks():
    X, y = problem(2, d=5)
    model = kw.MKLClassifier(K.linear(on="each"))
    found = kw.stability(model, X, y, n_resamples=6, Cs=[0.01, 0.1], decoys=True, random_state=0)
    assert 0.0 <= found.decoy_threshold <= 1.0
    assert "decoys" in str(found)
    again = kw.stability(model, X, y, n_resamples=6, Cs=[0.01, 0.1], decoys=True, random_state=0, n_jobs=2)
    assert_allclose(again.frequencies, found.frequencies)
    number = kw.stability(kw.MKLRegressor(K.linear(on="each"), C=0.01), X, X[:, 0], n_resamples=6, random_state=0)
    assert number.frequencies[0] == 1.0
    features = kw.MKLClassifier(K.linear(on="each"), approximation="nystroem", random_state=0)
    assert kw.stability(features, X, y, n_resamples=4, random_state=0).frequencies[0] == 1.0
    stack = np.stack([np.outer(x, x) for x in X.T], axis=2)
    there = kw.stability(kw.MKLClassifier("precomputed"), stack, y, n_resamples=4, random_state=0)
    assert there.kernel_names[0] == "kernel 0"
    assert there.frequencies[0] == 1.0


def test_penalties_with_an_entry_for_each_kernel_on_halves_and_with_decoys():
    """A kernel that is zero is left out, and decoys have entries, groups and prices of their own."""
    X, y = problem(3, d=4)
    X[:, 3] = 0.0
    bank = [K.Linear(on=[j], group="first" if j == 0 else "rest") for j in range(4)]
    groups = kw.penalties.Group(within=2.0, between=1.05)
    for penalty in (kw.penalties.L1([1.0, 2.0, 3.0, 4.0]), groups):
        model = kw.MKLClassifier(bank, C=0.1, penalty=penalty)
        with pytest.warns(UserWarning, match="get weight 0"):
            plain = kw.stability(model, X, y, n_resamples=4, random_state=0)
            found = kw.stability(model, X, y, n_resamples=4, random_state=0, decoys=True)
        assert plain.frequencies[0] == found.frequencies[0] == 1.0
        assert plain.frequencies[3] == found.frequencies[3] == 0.0
        assert set(found.group_frequencies) == {"first", "rest"}
    model = kw.MKLClassifier(K.effects(), C=0.1)
    effects = kw.stability(model, X[:, :3], y, n_resamples=2, decoys=True, random_state=0)
    assert effects.frequencies.max() == 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_resamples": 5}, "n_resamples=5 is odd"),
        ({"n_resamples": 0}, "n_resamples"),
        ({"method": "nonsense"}, "method='nonsense' is not known"),
        ({"threshold": 0.5}, "threshold must be above one half"),
        ({"threshold": "high"}, "threshold must be a number"),
        ({"Cs": [0.0]}, "every entry of Cs"),
    ],
    ids=str,
)
def test_refusals(settings, words):
    X, y = problem(0)
    with pytest.raises((ValueError, TypeError), match=words):
        kw.stability(kw.MKLClassifier(), X, y, **settings)


def test_what_has_no_stability():
    X, y = problem(0)
    with pytest.raises(ValueError, match="one sample only of a class"):
        kw.stability(kw.MKLClassifier(), X, np.arange(y.size) == 3)
    with pytest.raises(TypeError, match="with a C"):
        kw.stability(kw.MKLOutlierDetector(), X)
    with pytest.raises(TypeError, match="on its own"):
        kw.stability("l1", X, y)
