"""A path of C: the same answers as fits from nothing, found with less work."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K

BANK = K.rbf(gamma=[0.01, 0.1, 1.0]) + K.linear(on=[0, 1]) + K.polynomial(degree=2)
COSTS = [3.0, 0.03, 30.0, 0.3]


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


@pytest.mark.parametrize("penalty", ["l1", "lp", "uniform"])
def test_path_equals_separate_fits_in_the_order_given(wdbc, penalty):
    estimator = kw.MKLClassifier(BANK, penalty=penalty, tol=1e-6)
    path = kw.path(estimator, *wdbc, C=COSTS)
    np.testing.assert_array_equal(path.C, COSTS)
    assert path.weights.shape == (4, 5)
    assert path.gaps.max() <= 1e-6
    assert len(path.kernel_names) == 5
    for j, C in enumerate(COSTS):
        alone = kw.MKLClassifier(BANK, penalty=penalty, tol=1e-6, C=C).fit(*wdbc)
        assert path.objectives[j] == pytest.approx(alone.objective_, rel=3e-6)
        np.testing.assert_allclose(path.weights[j], alone.weights_, atol=5e-3)
        assert path.n_support[j] == pytest.approx(len(alone.support_), abs=10)


def test_the_estimator_is_left_as_it_is(wdbc):
    estimator = kw.MKLClassifier(BANK, C=7.0)
    kw.path(estimator, *wdbc, C=COSTS)
    assert estimator.C == 7.0
    assert not hasattr(estimator, "weights_")
    assert not hasattr(estimator, "n_features_in_")


def test_the_kernels_are_computed_once_and_starts_are_warm(wdbc, monkeypatch):
    starts, filled = [], []
    from kernelweave.assemble import stacks
    from kernelweave.estimators import base

    solve, fill = base.solve, stacks._filled
    monkeypatch.setattr(base, "solve", lambda *a, **k: starts.append(k["start"]) or solve(*a, **k))
    monkeypatch.setattr(stacks, "_filled", lambda *a: filled.append(1) or fill(*a))
    kw.path(kw.MKLClassifier(BANK), *wdbc, C=COSTS)
    assert len(filled) == 1
    assert [start is None for start in starts] == [True, False, False, False]


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes_have_a_path_each(multiclass):
    X, y = load_iris(return_X_y=True)
    path = kw.path(kw.MKLClassifier(BANK, multiclass=multiclass), X, y, C=[0.1, 1.0])
    assert path.weights.shape == (2, 3, 5)
    assert path.objectives.shape == (2, 3)
    assert path.gaps.shape == path.n_support.shape == (2,)
    alone = kw.MKLClassifier(BANK, multiclass=multiclass, C=1.0).fit(X, y)
    np.testing.assert_allclose(path.objectives[1], alone.objective_, rtol=3e-3)


def test_paths_take_stacks_and_weights(wdbc):
    X, y = wdbc
    weight = (np.arange(200) % 4 > 0).astype(float)
    stack = np.stack([kernel.resolve(X)[0](X) for kernel in BANK], axis=2)
    one = kw.path(kw.MKLClassifier("precomputed"), stack, y, C=[1.0], sample_weight=weight)
    two = kw.path(kw.MKLClassifier(BANK), X[weight > 0], y[weight > 0], C=[1.0])
    np.testing.assert_allclose(one.objectives, two.objectives, rtol=2e-3)


def test_a_path_that_falls_short_says_so_once(wdbc):
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as caught:
        kw.path(kw.MKLClassifier(BANK, max_iter=1, tol=1e-9), *wdbc, C=COSTS)
    assert len(caught) == 1


def test_costs_at_which_nothing_changes_take_no_step(wdbc):
    X, y = wdbc
    estimator = kw.MKLClassifier(K.rbf(gamma=1.0), penalty="uniform")
    worker = estimator.set_params(C=1.0)
    prepared = worker._prepare(X, y)
    found = worker._along(prepared, prepared.subproblems[0], np.array([0.01, 100.0, 101.0, 102.0]))
    assert [solution.n_iter > 0 for solution in found] == [True, True, False, False]
    assert all(solution.converged and len(solution.history.gap) > 0 for solution in found)
    for solution, C in zip(found, [0.01, 100.0, 101.0, 102.0], strict=True):
        alone = worker._solve(prepared, prepared.problem(prepared.subproblems[0], C))
        assert solution.certificate.lower <= alone.certificate.upper * (1 + 1e-9)
        assert alone.certificate.lower <= solution.certificate.upper * (1 + 1e-9)


@pytest.mark.parametrize("penalty", ["l1", "uniform"])
def test_entries_kept_from_one_cost_serve_the_next(wdbc, penalty):
    stack = np.stack([kernel(wdbc[0]) for kernel in BANK], axis=2)
    gram, y = kw.DenseGram(stack), np.where(wdbc[1] > 0, 1.0, -1.0)
    mixing = kw.penalties.L1() if penalty == "l1" else kw.penalties.Fixed(np.ones(5))
    problems = [kw.Problem(gram, kw.losses.Hinge().bind(y, np.full(y.size, C)), mixing) for C in (0.1, 1.0)]
    fresh = kw.solve(kw.Problem(kw.DenseGram(stack), problems[1].loss, mixing), "sqp", tol=1e-4)
    kw.solve(problems[0], "sqp", tol=1e-4)
    buffer = gram.left[0][0]
    again = kw.solve(problems[1], "sqp", tol=1e-4)
    assert gram.left[0][0] is buffer and len(gram.left) == 1
    assert max(again.gap, fresh.gap) <= 1e-4
    np.testing.assert_allclose(again.certificate.upper, fresh.certificate.upper, rtol=2e-4)
    fine = kw.solve(problems[1], "sqp", tol=1e-9)  # whose entries are in double precision
    assert fine.gap <= 1e-9
    assert not kw.DenseGram.__getstate__(gram)["left"]


def test_sums_with_weights_below_zero_start_from_the_answer_to_their_own_problem(wdbc):
    estimator = kw.MKLClassifier(BANK, penalty=kw.weightings.CentredAlignment("linear"), psd="clip", tol=1e-4)
    path = kw.path(estimator, *wdbc, C=[0.1, 1.0])
    assert path.weights.shape == (2, 5) and path.gaps.max() <= 1e-4
    for j, C in enumerate(path.C):
        alone = estimator.set_params(C=C).fit(*wdbc)
        assert path.objectives[j] == pytest.approx(alone.objective_, rel=3e-4)
        np.testing.assert_allclose(path.weights[j], alone.weights_, rtol=1e-6)
