"""Several classes at once: the joint margin, its duals, and problems without a bias, beside Clarabel."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import kernelweave as kw
from agreement import assert_same_optimum, check_against, refuses
from kernelweave import DenseGram, Problem, losses, penalties, solve
from kernelweave import kernels as K
from kernelweave.grams import CombinableGram
from reference import solve_by_clarabel
from registry import GRAMS, factored, label, on_demand

N, M, CLASSES = 30, 4, 3
JOINT_LOSS = losses.CrammerSinger()
PENALTIES = [
    penalties.L1(),
    penalties.L1(np.array([1.0, 0.7, 1.4, 0.9])),
    penalties.Lp(1.1),
    penalties.Lp(2.0),
    penalties.Lp(np.inf),
    penalties.ElasticNet(c1=0.5, c2=0.5),
    penalties.Mixed(alpha=0.8),
    penalties.MoreauYosida(a=0.4),
    penalties.Group([0, 1, 1, 0], within=2.0, between=1.5),
    penalties.Fixed(),
]
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=label)
each_gram = pytest.mark.parametrize("build", GRAMS, ids=label)
UNBIASED = [losses.Hinge(), losses.SquaredHinge(), losses.Squared(), losses.Logistic()]


def draw(seed=0, n=N):
    """Return kernels and classes that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.argmax(X @ rng.normal(size=(3, CLASSES)) + 0.8 * rng.normal(size=(n, CLASSES)), axis=1)
    y[:CLASSES] = np.arange(CLASSES)
    dots, far = X @ X.T, ((X[:, None] - X) ** 2).sum(axis=2)
    return np.stack([dots, np.exp(-far), np.exp(-0.1 * far), np.outer(X[:, 0], X[:, 0])], axis=2), y.astype(float)


def rows_of_duals(rng, y, scale=1.0):
    return JOINT_LOSS.project(scale * rng.normal(size=(y.size, CLASSES)), y, np.full(y.size, 2.0))


@cache
def best(which, C=2.0):
    stack, y = draw()
    return solve_by_clarabel(stack, y, C, PENALTIES[which], JOINT_LOSS, dual_sum=None)


# --- the loss -----------------------------------------------------------------------


def test_value_is_the_worst_of_all_classes(rng):
    f, y, C = rng.normal(size=(8, CLASSES)), rng.integers(0, CLASSES, 8).astype(float), rng.uniform(0.5, 2.0, 8)
    by_hand = [C[i] * max((c != y[i]) + f[i, c] - f[i, int(y[i])] for c in range(CLASSES)) for i in range(8)]
    assert_allclose(JOINT_LOSS.value(f, y, C), by_hand, rtol=1e-12, atol=1e-14)


def test_fenchel_young_inequality_and_equality(rng):
    f, (_, y) = rng.normal(scale=2.0, size=(N, CLASSES)), draw()
    C = np.full(N, 2.0)
    for scale in (1e-3, 1.0, 100.0):
        beta = rows_of_duals(rng, y, scale)
        assert np.min(JOINT_LOSS.value(f, y, C) - JOINT_LOSS.dual(beta, y, C) + np.sum(beta * f, axis=1)) >= -1e-12
    beta = -JOINT_LOSS.slope(f, y, C)
    assert_allclose(JOINT_LOSS.value(f, y, C) + np.sum(beta * f, axis=1), JOINT_LOSS.dual(beta, y, C), atol=1e-12)
    assert_allclose(JOINT_LOSS.project(beta, y, C), beta, atol=1e-12)


def test_projection_is_feasible_and_nearest(rng):
    _, y = draw()
    C = rng.uniform(0.5, 3.0, N)
    wild = rng.normal(scale=3.0, size=(N, CLASSES))
    beta = JOINT_LOSS.project(wild, y, C)
    own = np.eye(CLASSES)[y.astype(int)]
    assert_allclose(beta.sum(axis=1), 0.0, atol=1e-12)
    assert np.all(beta <= C[:, None] * own + 1e-12)
    for _ in range(50):  # no feasible point is nearer
        other = JOINT_LOSS.project(rng.normal(scale=2.0, size=(N, CLASSES)), y, C)
        assert np.all(np.sum((wild - beta) * (other - beta), axis=1) <= 1e-9)


def test_stretch_never_lowers_the_dual(rng):
    _, y = draw()
    C = np.full(N, 2.0)
    for h in (0.01, 1.0, 100.0):
        beta = rows_of_duals(rng, y)
        s = JOINT_LOSS.dual_scale(beta, y, C, h)
        total = [t * JOINT_LOSS.dual(beta, y, C).sum() - t**2 * h for t in (1.0, s, 0.99 * s)]
        assert max(total) == total[1]
        assert np.all(JOINT_LOSS.dual(s * beta, y, C) <= C + 1e-12)


def test_targets_that_are_no_classes_are_refused():
    stack, _ = draw()
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        Problem(DenseGram(stack), JOINT_LOSS.bind(np.full(N, 0.5), 1.0), penalties.L1(), dual_sum=None)
    with pytest.raises(ValueError, match="dual_sum must be None for CrammerSinger"):
        Problem(DenseGram(stack), JOINT_LOSS.bind(np.zeros(N), 1.0), penalties.L1())


# --- kernels with rows of duals -----------------------------------------------------------------------


@each_gram
def test_products_with_rows_are_those_of_each_column(build, rng):
    stack, _ = draw()
    gram, beta, weights = build(stack, np.array([1.0, 0.5, 2.0, 1.5])), rng.normal(size=(N, CLASSES)), rng.random(M)
    beta[::3] = 0.0
    assert_allclose(gram.energies(beta), sum(gram.energies(column) for column in beta.T.copy()), rtol=1e-11)
    columns = [gram.decision(column, weights) for column in beta.T.copy()]
    assert_allclose(gram.decision(beta, weights), np.stack(columns, axis=1), rtol=1e-11, atol=1e-12)
    if isinstance(gram, CombinableGram):
        each = [gram.products(column) for column in beta.T.copy()]
        assert_allclose(gram.products(beta), each, rtol=1e-11, atol=1e-12)
        some, kernels = np.array([3, 1, 8]), np.array([2, 0])
        part = gram.weighted_columns(beta[:5], np.arange(5), some, kernels)
        whole = gram.weighted_columns(beta[:5], np.arange(5))
        assert_allclose(part, whole[:, some][:, :, kernels], rtol=1e-11, atol=1e-12)


# --- optima -----------------------------------------------------------------------


@each_penalty
@pytest.mark.parametrize("solver", ["ascent", "rows"])
def test_exact_solvers_reach_clarabels_optimum(penalty, solver):
    stack, y = draw()
    gram = DenseGram(stack) if solver == "ascent" else factored(stack, None)
    problem = Problem(gram, JOINT_LOSS.bind(y, 2.0), penalty, dual_sum=None)
    found = solve(problem, solver, tol=1e-6)
    reference = best(PENALTIES.index(penalty))
    check_against(problem, found, reference, 1e-6)
    if isinstance(penalty, (penalties.Mixed, penalties.ElasticNet)):
        assert_array_equal(found.weights > 0, reference.weights > 1e-5)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("seed", range(3))
def test_kernels_features_and_columns_on_demand_agree(C, seed):
    stack, y = draw(seed, n=120)
    for penalty in (penalties.L1(), penalties.Lp(1.5), penalties.Mixed(alpha=C)):
        exact = solve(Problem(DenseGram(stack), JOINT_LOSS.bind(y, C), penalty, dual_sum=None), tol=1e-4)
        there = Problem(on_demand(stack, None), JOINT_LOSS.bind(y, C), penalty, dual_sum=None)
        again = solve(there, "ascent", tol=1e-4)
        features = Problem(factored(stack, None), JOINT_LOSS.bind(y, C), penalty, dual_sum=None)
        solvers = ["ascent", "rows"] if C <= 30 else ["ascent"]
        on_features = [solve(features, solver, tol=1e-3) for solver in solvers]
        for found in (exact, again, *on_features):
            assert found.converged, (found.solver, found.certificate)
            assert_same_optimum(found, exact)


def test_one_dual_of_the_entropy_goes_where_its_model_is_least(rng):
    from kernelweave.compiled.duals import ENTROPY, target

    for _ in range(2000):
        cost, curvature = 10.0 ** rng.uniform(-3, 4), 10.0 ** rng.uniform(-6, 4)
        lower = rng.choice([-cost, 0.0])
        beta, gradient = lower + cost * rng.random(), rng.normal(scale=10.0 ** rng.uniform(-2, 3))
        new = target(ENTROPY, gradient, curvature, beta, 0.0, 0.0, lower, lower + cost, 0.0)
        steps = np.clip(new + cost * np.array([-1e-4, 0.0, 1e-4]), lower, lower + cost)
        shares = np.clip(np.stack([steps - lower, lower + cost - steps]) / cost, 1e-300, 1.0)
        model = gradient * steps + 0.5 * curvature * (steps - beta) ** 2 + cost * np.sum(shares * np.log(shares), 0)
        assert model[1] <= model.min() + 1e-12 * np.abs(model).max()


def test_single_rows_and_l1_at_a_large_cost():
    """Stages of the weights must not hold the duals back."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(130, 3))
    far = ((X[:, None] - X) ** 2).sum(axis=2)
    gram = factored(np.stack([np.exp(-0.3 * far), np.exp(-2.0 * far)], axis=2), None)
    bound = JOINT_LOSS.bind(rng.integers(0, 4, 130).astype(float), 100.0)
    problem = Problem(gram, bound, penalties.L1(), dual_sum=None)
    assert solve(problem, "rows", max_iter=2000).converged


@pytest.mark.parametrize("bias", [True, False])
def test_logistic_loss_of_more_samples_than_a_step_works_on(bias, monkeypatch):
    from kernelweave.solvers import ascent

    monkeypatch.setattr(ascent, "SETTINGS", replace(ascent.SETTINGS, most=80, first=80))
    stack, y = draw(n=120)
    bound = losses.Logistic().bind(np.where(y > 0, 1.0, -1.0))
    problem = Problem(DenseGram(stack), bound, penalties.Lp(2.0), dual_sum=0.0 if bias else None)
    assert solve(problem, "ascent").converged


@pytest.mark.parametrize("loss", UNBIASED, ids=label)
@each_penalty
def test_problems_without_a_bias_reach_clarabels_optimum(penalty, loss):
    stack, y = draw()
    y = np.where(y > 0, 1.0, -1.0)
    reference = solve_by_clarabel(stack, y, 1.5, penalty, loss, dual_sum=None)
    problem = Problem(DenseGram(stack), loss.bind(y, 1.5), penalty, dual_sum=None)
    check_against(problem, solve(problem, "ascent", tol=1e-6), reference, 1e-6)
    problem = Problem(factored(stack, None), loss.bind(y, 1.5), penalty, dual_sum=None)
    check_against(problem, solve(problem, "rows", tol=1e-5), reference, 1e-5)


@each_penalty
def test_logistic_loss_with_a_bias_on_stored_kernels(penalty):
    stack, y = draw()
    y = np.where(y > 0, 1.0, -1.0)
    problem = Problem(DenseGram(stack), losses.Logistic().bind(y, 1.5), penalty)
    found = solve(problem, tol=1e-6)
    assert found.solver == "ascent"
    check_against(problem, found, solve_by_clarabel(stack, y, 1.5, penalty, losses.Logistic()), 1e-6)
    assert_same_optimum(found, solve(Problem(factored(stack, None), losses.Logistic().bind(y, 1.5), penalty), tol=1e-6))


def test_spec_values():
    x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 2.5, -1.5])
    y = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
    far = (x[:, None] - x) ** 2
    gram = DenseGram(np.stack([np.outer(x, x), np.exp(-far), np.exp(-0.1 * far)], axis=2))
    lam, a = 0.1, 0.05
    for loss, value, norms in [
        (losses.Hinge(), 0.508868, (0.26675, 2.15125, 0.0)),
        (losses.Logistic(), 0.592644, (0.38240, 0.86445, 0.0)),
    ]:
        cost = 1.0 / (8 * lam)
        problem = Problem(gram, loss.bind(y, cost), penalties.Mixed(a / lam), dual_sum=None)
        found = solve(problem, tol=1e-7)
        assert lam * found.certificate.upper == pytest.approx(value, rel=1e-5)
        assert_allclose(found.weights * np.sqrt(gram.energies(found.coef)), norms, atol=1e-3)
        assert found.weights[2] == 0.0
    found = solve(Problem(gram, losses.Logistic().bind(y, 1.0), penalties.L1()), tol=1e-7)
    assert found.certificate.upper == pytest.approx(4.615479, rel=1e-5)
    assert_allclose(found.weights, (0.2336, 0.7664, 0.0), atol=1e-3)


def test_one_linear_kernel_is_scikit_learns_joint_machine():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    theirs = LinearSVC(multi_class="crammer_singer", C=0.5, fit_intercept=False, tol=1e-8, max_iter=100_000).fit(X, y)
    ours = kw.MKLClassifier(K.Linear(), C=0.5, multiclass="joint", normalize=None, tol=1e-9).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)


# --- refusals -----------------------------------------------------------------------


def test_solvers_that_cannot_say_so():
    stack, y = draw()
    joint = Problem(DenseGram(stack), JOINT_LOSS.bind(y, 1.0), penalties.L1(), dual_sum=None)
    hinge = losses.Hinge().bind(np.where(y > 0, 1.0, -1.0))
    bare = Problem(DenseGram(stack), hinge, penalties.L1(), dual_sum=None)
    for solver in ("sqp", "smo", "proximal", "skm", "alternating"):
        assert refuses(joint, solver)
        assert refuses(bare, solver)
    assert refuses(Problem(DenseGram(stack), hinge, penalties.Mixed()), "mirror")
    with pytest.raises(ValueError, match=r"does not take the dual of CrammerSinger\(\): use solver='auto'"):
        solve(joint, "sqp")
    with pytest.raises(ValueError, match="use fit_intercept=True"):
        solve(bare, "sqp")


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"loss": "squared_hinge"}, "multiclass='joint' is for loss='hinge'"),
        ({"fit_intercept": True}, "fit_intercept=True is not for multiclass='joint'"),
        ({"fit_intercept": "yes"}, "fit_intercept must be"),
        ({"penalty": "alignment"}, "use multiclass='ovr' or 'ovo'"),
    ],
)
def test_settings_that_do_not_go_together(params, sentence):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=sentence):
        kw.MKLClassifier(multiclass="joint", **params).fit(X, y)


def test_a_joint_loss_asks_for_a_joint_problem():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="use multiclass='joint'"):
        kw.MKLClassifier(loss="crammer_singer").fit(X, y)


# --- the estimator -----------------------------------------------------------------------


@pytest.mark.parametrize("approximation", [None, kw.Nystroem(rank=40)])
@pytest.mark.parametrize("penalty", ["l1", "lp", "elasticnet", penalties.Mixed(1.0)])
def test_joint_classifier(approximation, penalty):
    X, y = load_wine(return_X_y=True)
    X, names = StandardScaler().fit_transform(X), np.array(["barbera", "barolo", "grignolino"])[y]
    bank = K.rbf(gamma=[0.01, 0.1]) + K.linear(on="each")
    model = kw.MKLClassifier(
        bank, multiclass="joint", penalty=penalty, approximation=approximation, C=3.0, random_state=0
    ).fit(X[::2], names[::2])
    assert model.dual_gap_ <= 1e-3
    assert model.weights_.shape == (15,)
    assert model.decision_function(X).shape == (178, 3)
    assert model.dual_coef_.shape == (3, model.support_.size)
    assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9)
    assert_array_equal(model.intercept_, np.zeros(3))
    assert model.problem_names_ == ["barbera / barolo / grignolino"]
    assert model.score(X[1::2], names[1::2]) > 0.93
    assert "barolo" not in model.summary() and "15 kernels in use" in model.summary()


def test_joint_path_ends_where_a_fit_does():
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifier(multiclass="joint", tol=1e-5)
    along = kw.path(model, X, y, C=[0.1, 10.0])
    assert along.weights.shape == (2, 10)
    assert along.objectives[1] == pytest.approx(model.set_params(C=10.0).fit(X, y).objective_, rel=2e-5)


def test_two_classes_are_one_question_whatever_is_asked():
    X, y = load_iris(return_X_y=True)
    plain = kw.MKLClassifier().fit(X[50:], y[50:])
    joint = kw.MKLClassifier(multiclass="joint").fit(X[50:], y[50:])
    named = kw.MKLClassifier(loss="crammer_singer", multiclass="joint").fit(X[50:], y[50:])
    for other in (joint, named):
        assert_array_equal(other.decision_function(X), plain.decision_function(X))


def test_a_constant_kernel_stands_for_the_intercept():
    X, y = load_iris(return_X_y=True)
    bank = [K.RBF(gamma=0.1), K.Constant()]
    model = kw.MKLClassifier(bank, fit_intercept=False, penalty="lp", C=5.0).fit(X[50:] + 3.0, y[50:])
    bare = kw.MKLClassifier(bank[:1], fit_intercept=False, penalty="lp", C=5.0).fit(X[50:] + 3.0, y[50:])
    assert_array_equal(model.intercept_, [0.0])
    far = np.full((1, 4), 1e3)  # where the Gaussian is zero
    assert bare.decision_function(far) == 0.0
    assert model.decision_function(far) == pytest.approx(model.weights_[1] * model.dual_coef_.sum(), rel=1e-9)


def test_precomputed_joint_problem_in_cross_validation():
    from sklearn.model_selection import cross_val_score

    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    stack = np.stack([kernel(X) for kernel in K.rbf(gamma=[0.01, 0.1]) + [K.Linear()]], axis=2)
    scores = cross_val_score(kw.MKLClassifier("precomputed", multiclass="joint", C=10.0), stack, y, cv=3)
    assert scores.min() > 0.85


# --- probabilities -----------------------------------------------------------------------


def test_calibrated_probabilities():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for multiclass in ("ovr", "joint", "ovo"):
        model = kw.MKLClassifier(multiclass=multiclass, probability=True).fit(X[::2], y[::2])
        chances = model.predict_proba(X[1::2])
        assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-9)
        assert np.mean(chances.argmax(axis=1) == y[1::2]) > 0.93
        right = chances[np.arange(y[1::2].size), y[1::2]]
        assert -np.log(right).mean() < 0.35
    two = kw.MKLClassifier(probability=True).fit(X[y < 2], y[y < 2], np.ones((y < 2).sum()))
    assert two.predict_proba(X[:5]).shape == (5, 2)


def test_calibration_counts_samples_by_their_weight(rng):
    """Every other label is wrong and hardly counts; it would blur the folds' machines, and the sigmoid after them."""
    X = rng.normal(size=(80, 2))
    right, counts = (X[:, 0] > 0).astype(int), np.arange(80) % 2 == 0
    y, weight = np.where(counts, right, 1 - right), np.where(counts, 1.0, 1e-6)
    chances = kw.MKLClassifier(["linear"], probability=True).fit(X, y, weight).predict_proba(X)
    assert chances[np.arange(80), right].mean() > 0.8


def test_probabilities_are_those_of_the_last_fit():
    X, y = load_iris(return_X_y=True)
    model = kw.MKLClassifier(["linear"]).fit(X, y).set_params(probability=True)
    with pytest.raises(ValueError, match="fit again"):
        model.predict_proba(X)
    column = kw.MKLClassifier(["linear"], probability=True)
    with pytest.warns(match="column-vector"):
        column.fit(X, y[:, None])
    assert column.predict_proba(X).shape == (150, 3)


def test_probabilities_need_two_samples_of_each_class():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="two samples or more of each class"):
        kw.MKLClassifier(probability=True).fit(X[:51], y[:51])
    with pytest.raises(AttributeError, match="predict_proba"):
        kw.MKLClassifier().fit(X, y).predict_proba(X)
