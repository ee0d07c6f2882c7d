"""Laws of losses: every loss in CASES goes through all of them, bound to targets of its kind."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone

from kernelweave import losses
from kernelweave.arrays import to_host
from kernelweave.compiled import duals
from kernelweave.losses.base import ENTROPY, MARGIN, QUADRATIC, SOFTMAX, DualTerms, Loss, flat_point
from kernelweave.losses.survival import concordance
from registry import BINARY, CASES, LOSSES, Case, exported, label, names, targets_for

N = 41
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_cost = pytest.mark.parametrize("spread", [0.0, 1.0], ids=["one C", "own C"])
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=label)
each_binary = pytest.mark.parametrize("loss", BINARY, ids=label)
WITH_BIAS = [case for case in CASES if case.loss.takes_bias]
each_with_bias = pytest.mark.parametrize("case", WITH_BIAS, ids=str)
BY_SAMPLE = [case for case in CASES if not isinstance(case.loss, losses.Cox)]  # sums over samples
WITH_TERMS = [case for case in CASES if case.bind(np.random.default_rng(0), 4).terms is not None]
COMPILED = [case for case in BY_SAMPLE if not case.columns]
each_with_terms = pytest.mark.parametrize("case", WITH_TERMS, ids=str)
each_compiled = pytest.mark.parametrize("case", COMPILED, ids=str)


def draw(case, rng, spread=1.0, n=N):
    """Return the loss bound to drawn targets and costs, and decision values."""
    C = 1.7 * np.exp(spread * rng.normal(size=n))
    bound = case.loss.bind(targets_for(case.loss, rng, n, columns=case.columns), C)
    return bound, rng.normal(scale=2.0, size=bound.shape)


def total(bound, f, price=0.0, bias=0.0):
    return float(np.sum(bound.value(f + bias))) + price * float(np.sum(bias))


def rows(x):
    """Return the sums over the columns, if there are any."""
    return x if x.ndim == 1 else x.sum(axis=1)


def sums_allowed(bound):
    """Return sums that feasible duals can have, zero first."""
    if bound.terms is None:
        return [0.0]
    lower, upper = (float(np.sum(part, axis=0).min()) for part in (bound.box.lower, bound.box.upper))
    return [value for value in (0.0, 1.0, -1.0) if lower <= value <= upper]


def test_every_loss_is_registered():
    assert exported(losses) == names(LOSSES)


def test_every_task_has_a_loss():
    assert {task for loss in LOSSES for task in loss.tasks} == {
        "binary", "multiclass", "regression", "outliers", "survival"
    }  # fmt: skip


# -- values --


@each_case
def test_value_is_convex_and_its_slope_a_subgradient(case, rng):
    bound, f = draw(case, rng)
    for scale in (0.01, 2.0, 50.0):
        for g in rng.normal(scale=scale, size=(20, *bound.shape)):
            below = total(bound, f) + float(np.sum(bound.slope(f) * (g - f)))
            assert total(bound, g) >= below - 1e-11 * max(abs(below), 1.0)


@pytest.mark.parametrize("case", BY_SAMPLE, ids=str)
def test_each_sample_has_a_convex_loss_of_its_own(case, rng):
    bound, f = draw(case, rng)
    for g in rng.normal(scale=2.0, size=(20, *bound.shape)):
        ahead = rows(bound.slope(f) * (g - f))
        assert np.all(rows(bound.value(g)) >= rows(bound.value(f)) + ahead - 1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if case.loss.smooth], ids=str)
def test_curvature_is_the_derivative_of_the_slope(case, rng):
    bound, f = draw(case, rng)
    if case.loss.elementwise:
        differences = (bound.slope(f + 1e-6) - bound.slope(f - 1e-6)) / 2e-6
        assert_allclose(bound.curvature(f), differences, atol=1e-7 * bound.C.max())
    for x in rng.normal(size=(5, *bound.shape)):
        differences = (bound.slope(f + 1e-6 * x) - bound.slope(f - 1e-6 * x)) / 2e-6
        assert_allclose(bound.curvature_times(f, x), differences, atol=1e-6 * bound.C.max())


def test_what_is_smooth_is_said():
    smooth = [type(loss) for loss in LOSSES if loss.smooth]
    assert set(smooth) == {
        losses.SquaredHinge, losses.Squared, losses.Logistic, losses.SquaredEpsilonInsensitive, losses.Huber,
        losses.Softmax, losses.Cox,
    }  # fmt: skip


@each_case
def test_decision_values_of_any_size_are_quiet(case, rng):
    bound, _ = draw(case, rng)
    for size in (0.0, 1.0, 1e3, 1e8):
        f = size * rng.normal(size=bound.shape)
        assert np.all(np.isfinite(bound.value(f))) and np.all(np.isfinite(bound.slope(f)))
        if case.loss.smooth:
            assert np.all(np.isfinite(bound.curvature_times(f, np.ones(bound.shape))))


# -- duals --


@each_case
@each_cost
def test_fenchel_young_inequality(case, rng, spread):
    """At decision values of any size, so that a point that is not feasible would be found out."""
    bound, _ = draw(case, rng, spread)
    for size in (1e-3, 1.0, 100.0):
        for beta in rng.normal(scale=size, size=(10, *bound.shape)):
            beta = bound.project(beta)
            dual = float(np.sum(bound.dual(beta)))
            for scale in (0.1, 3.0, 1e3, 1e6):
                f = scale * rng.normal(size=bound.shape)
                parts = total(bound, f), -dual, float(np.sum(beta * f))
                assert sum(parts) >= -1e-11 * max(abs(part) for part in parts)


@each_case
@each_cost
def test_fenchel_young_equality_at_the_slope(case, rng, spread):
    bound, f = draw(case, rng, spread)
    beta = -bound.slope(f)
    gap = total(bound, f) - float(np.sum(bound.dual(beta))) + float(np.sum(beta * f))
    assert gap == pytest.approx(0.0, abs=1e-10 * bound.C.sum())
    assert_allclose(bound.project(beta), beta, atol=1e-10 * bound.C.max())


@pytest.mark.parametrize("case", BY_SAMPLE, ids=str)
def test_gaps_are_those_of_the_samples(case, rng):
    bound, f = draw(case, rng)
    beta = bound.project(rng.normal(size=bound.shape))
    gaps = bound.gaps(f, beta)
    assert gaps.shape == (N,) and gaps.min() >= -1e-11
    whole = total(bound, f) - float(np.sum(bound.dual(beta))) + float(np.sum(beta * f))
    assert float(gaps.sum()) == pytest.approx(whole, rel=1e-9)
    assert_allclose(bound.gaps(f, -bound.slope(f)), 0.0, atol=1e-10 * bound.C.max())


@pytest.mark.parametrize("case", [case for case in WITH_TERMS if not case.columns], ids=str)
def test_dual_is_the_least_of_loss_plus_linear(case):
    """On a fine grid of decision values, for duals within their bounds and at them."""
    grid = np.linspace(-400.0, 400.0, 160_001)
    for y, C, share in [(1.0, 2.0, 0.3), (-1.0, 2.0, 0.9), (1.0, 0.5, 0.0), (-1.0, 0.5, 1.0), (1.0, 2.0, 0.5)]:
        bound = case.loss.bind([y], C)
        lower, upper = np.maximum(bound.box.lower, -10.0), np.minimum(bound.box.upper, 10.0)
        beta = lower + share * (upper - lower)
        least = np.min(case.loss.value(grid, np.full(grid.size, y), np.full(grid.size, C)) + beta * grid)
        assert bound.dual(beta)[0] == pytest.approx(least, abs=1e-4)


@pytest.mark.parametrize("loss", [losses.Softmax(), losses.Cox()], ids=label)
def test_dual_that_is_no_sum_is_the_least_of_loss_plus_linear(loss, rng):
    bound, f = draw(Case(loss), rng, n=9)
    for _ in range(5):
        beta = bound.project(0.5 * rng.normal(size=bound.shape))
        inside = 0.9 * beta - 0.1 * bound.slope(f)  # where the least is attained

        def value(x, beta=inside):
            g = x.reshape(bound.shape)
            return total(bound, g) + float(np.sum(beta * g)), (bound.slope(g) + beta).ravel()

        least = minimize(value, np.zeros(f.size), jac=True, method="BFGS", options={"gtol": 1e-9})
        assert float(np.sum(bound.dual(inside))) == pytest.approx(least.fun, rel=1e-6, abs=1e-7)


@each_with_terms
@each_cost
def test_terms_are_the_dual(case, rng, spread):
    bound, _ = draw(case, rng, spread)
    box, beta = bound.box, bound.project(rng.normal(size=bound.shape))
    assert np.all((box.lower <= beta) & (beta <= box.upper))
    assert np.all((box.lower <= 0) & (box.upper >= 0))
    assert_allclose(bound.dual(beta), box.value(beta), rtol=1e-12)
    assert bound.quadratic is not box.entropic
    if bound.quadratic:
        by_hand = box.linear * beta - 0.5 * box.ridge * beta**2 - box.kink * np.abs(beta)
        assert_allclose(bound.dual(beta), by_hand, rtol=1e-12)
    assert box.kinked is isinstance(case.loss, losses.EpsilonInsensitive)
    assert box.bounded is not isinstance(case.loss, losses.Squared | losses.SquaredEpsilonInsensitive)


@each_with_terms
def test_directed_slopes_are_those_of_the_dual(case, rng):
    bound, _ = draw(case, rng)
    if case.loss.probabilistic:
        return  # whose dual has no kink, and a slope that is no multiple of the dual
    box, beta = bound.box, bound.project(rng.normal(size=bound.shape))
    beta[::3] = 0.0
    up, down = box.directed(box.ridge * beta - box.linear, beta)
    step = 1e-7
    assert_allclose(up, -(box.value(beta + step) - box.value(beta)) / step, atol=1e-5)
    assert_allclose(down, -(box.value(beta) - box.value(beta - step)) / step, atol=1e-5)


@each_with_terms
def test_terms_of_some_samples_and_columns(case, rng):
    bound, _ = draw(case, rng)
    index = np.array([4, 1, 7])
    for part, whole in zip(bound.box.take(index).parts, bound.box.parts, strict=True):
        assert_array_equal(part, whole[index])
    if case.columns:
        for part, whole in zip(bound.box.column(1).parts, bound.box.parts, strict=True):
            assert_array_equal(part, whole[:, 1])


def test_values_of_known_losses():
    f, y, C = np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]), np.array([1.0, 2.0, 4.0])
    assert_allclose(losses.Hinge().value(f, y, C), [0.0, 1.0, 6.0])
    assert_allclose(losses.SquaredHinge().value(f, y, C), [0.0, 0.25, 4.5])
    assert_allclose(losses.Squared().value(f, y, C), [0.5, 0.25, 4.5])
    assert_allclose(losses.EpsilonInsensitive(0.5).value(f, y, C), [0.5, 0.0, 4.0])
    assert_allclose(losses.SquaredEpsilonInsensitive(0.5).value(f, y, C), [0.125, 0.0, 2.0])
    assert_allclose(losses.Huber(1.2).value(f, y, C), [0.5, 0.25, 4.0 * (1.8 - 0.72)])
    assert_allclose(losses.Quantile(0.75).value(f, y, C), [0.25, 0.75, 1.5])
    assert_allclose(losses.OneClass().value(-f, y, C), [2.0, 1.0, 2.0])
    assert_array_equal(losses.Hinge().terms(y, C).upper, [1.0, 2.0, 0.0])
    assert_array_equal(losses.Hinge().terms(y, C).lower, [0.0, 0.0, -4.0])


def test_cox_by_hand():
    """Times 1, 2, 2, 3; events at 1, 2 (two of them, tied) and 3; one sample lost at 2 is at risk until then."""
    time, event = np.array([2.0, 1.0, 2.0, 3.0, 2.0, 0.5]), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    f, C = np.array([0.3, -0.2, 0.9, 0.1, -0.5, 4.0]), np.array([1.0, 2.0, 0.5, 1.0, 1.5, 1.0])
    w = C / 2.0
    by_hand = 0.0
    for i in np.flatnonzero(event):
        at_risk = time >= time[i]
        by_hand += C[i] * (np.log(np.sum((w * np.exp(f))[at_risk])) - f[i])
    bound = losses.Cox().bind(np.stack([event, time], axis=1), C)
    assert total(bound, f) == pytest.approx(by_hand, rel=1e-12)
    assert bound.slope(f)[5] == 0.0  # never at risk
    assert total(bound, f + 7.0) == pytest.approx(by_hand, rel=1e-12)
    assert np.sum(bound.slope(f)) == pytest.approx(0.0, abs=1e-12)


def test_baseline_hazard_is_breslows():
    time, event = np.array([2.0, 1.0, 2.0, 3.0, 2.5]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    f, ones = np.array([0.3, -0.2, 0.9, 0.1, -0.5]), np.ones(5)
    bound = losses.Cox().bind(np.stack([event, time], axis=1))
    moments, hazard = bound.loss.baseline(f, bound.y, ones, time)
    assert_array_equal(moments, [1.0, 2.0, 3.0])
    steps = [np.sum((time == t) & (event > 0)) / np.exp(f[time >= t]).sum() for t in moments]
    assert_allclose(hazard, np.cumsum(steps), rtol=1e-12)


def test_concordance_counts_pairs(rng):
    risk, time = rng.integers(0, 5, 40).astype(float), rng.integers(1, 9, 40).astype(float)
    event, weight = (rng.random(40) < 0.6).astype(float), rng.integers(1, 4, 40).astype(float)
    right = pairs = 0.0
    for i in range(40):
        for j in range(40):
            if event[i] and (time[j] > time[i] or (time[j] == time[i] and not event[j])):
                pairs += weight[i] * weight[j]
                right += weight[i] * weight[j] * (0.5 * (risk[i] == risk[j]) + (risk[i] > risk[j]))
    assert concordance(risk, event, time, weight) == pytest.approx(right / pairs, rel=1e-12)
    twice = [np.repeat(part, weight.astype(int)) for part in (risk, event, time)]
    alone = concordance(*twice)
    assert alone == pytest.approx(right / pairs, abs=0.05)  # copies of a sample that had its event are not compared
    with pytest.raises(ValueError, match="concordance has no value"):
        concordance(np.ones(3), np.zeros(3), np.arange(3.0))


# -- feasible duals --


@each_case
@each_cost
def test_projection_is_feasible_and_keeps_feasible_points(case, rng, spread):
    bound, _ = draw(case, rng, spread)
    for size in (1e-8, 1.0, 1e6):
        for beta in rng.normal(scale=size, size=(20, *bound.shape)):
            once = bound.project(beta)
            assert np.isfinite(np.sum(bound.dual(once)))
            rounding = 1e-10 * bound.C.max() + 1e-15 * np.abs(beta).max()
            assert_allclose(bound.project(once), once, rtol=1e-9, atol=rounding)


@pytest.mark.parametrize("case", [case for case in CASES if case.loss.elementwise], ids=str)
def test_projection_of_single_duals_is_the_nearest_point(case, rng):
    bound, _ = draw(case, rng)
    beta = rng.normal(scale=3.0, size=bound.shape)
    assert_array_equal(bound.project(beta), np.clip(beta, bound.box.lower, bound.box.upper))


@pytest.mark.parametrize("loss", [losses.CrammerSinger(), losses.Softmax()], ids=label)
def test_projection_of_rows_is_the_nearest_point(loss, rng):
    bound, _ = draw(Case(loss), rng)
    wild = rng.normal(scale=3.0, size=bound.shape)
    beta, own = bound.project(wild), np.eye(bound.shape[1])[bound.y.astype(int)]
    assert_allclose(beta.sum(axis=1), 0.0, atol=1e-11)
    assert np.all(beta <= bound.C[:, None] * own + 1e-12)
    for _ in range(50):  # no feasible point is nearer
        other = bound.project(rng.normal(scale=2.0, size=bound.shape))
        assert np.all(np.sum((wild - beta) * (other - beta), axis=1) <= 1e-9)


@each_with_bias
@each_cost
def test_balance_is_feasible_sums_to_what_is_asked_and_keeps_what_does(case, rng, spread):
    bound, _ = draw(case, rng, spread)
    for size in (1e-8, 1.0, 1e6):
        for beta in rng.normal(scale=size, size=(20, *bound.shape)):
            once = bound.project(beta)
            for asked in sums_allowed(bound):
                level = bound.balance(once, asked)
                assert_allclose(np.sum(level, axis=0), asked, atol=1e-12 * max(np.abs(level).sum(), 1.0))
                assert_allclose(bound.project(level), level, atol=1e-10 * bound.C.max())
                assert_allclose(bound.balance(level, asked), level, rtol=1e-9, atol=1e-12 * bound.C.max())


def test_feasible_duals_of_survival_sum_to_zero(rng):
    bound, _ = draw(Case(losses.Cox()), rng)
    for scale in (1e-3, 1.0, 1e3):
        beta = bound.project(scale * rng.normal(size=N))
        assert abs(beta.sum()) <= 1e-12 * bound.C.sum()
        assert bound.balance(beta) is beta


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge()], ids=label)
def test_balance_of_one_sided_duals_is_zero_for_a_margin(loss, rng):
    bound, _ = draw(Case(loss), rng)
    assert_array_equal(bound.balance(bound.project(np.where(bound.y > 0, 1.0, 0.0))), np.zeros(N))


def test_balance_of_free_duals_takes_their_mean_away(rng):
    bound, beta = draw(Case(losses.Squared()), rng)
    assert_allclose(beta - bound.balance(beta), np.mean(beta), rtol=1e-12)


@each_case
@each_cost
def test_dual_scale_is_the_best_multiple_and_stays_feasible(case, rng, spread):
    bound, _ = draw(case, rng, spread)
    if not case.loss.elementwise and not isinstance(case.loss, losses.CrammerSinger):
        assert bound.dual_scale(bound.project(rng.normal(size=bound.shape)), 3.0) == 1.0
        return
    for size in rng.choice([1e-3, 1.0, 10.0], 50):
        beta, h = bound.project(rng.normal(scale=size, size=bound.shape)), rng.exponential(30.0)
        s = bound.dual_scale(beta, h)
        value = [float(np.sum(bound.dual(t * beta))) - t**2 * h for t in (1.0, s, 0.99 * s)]
        assert value[1] >= value[0] - 1e-10 * abs(value[0])
        assert value[1] >= value[2] - 1e-10 * abs(value[2])
        assert_allclose(bound.project(s * beta), s * beta, rtol=1e-11, atol=1e-11 * bound.C.max())


@each_case
def test_dual_scale_of_zero_is_one(case, rng):
    bound, _ = draw(case, rng)
    assert bound.dual_scale(bound.zero, 0.0) == 1.0


def test_dual_scale_of_duals_at_their_bounds_is_quiet():
    y, C = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1e-6, 1.0, 1.0, 1.0])
    s = losses.Logistic().bind(y, C).dual_scale(y * np.array([1e-6, 0.1, 0.05, 0.05]), 1e-9)
    assert 0.99 < s <= 1.0


# -- the bias --


def least_by_search(bound, f, price):
    """Return the least total loss over biases near, far and at every kink, a column at a time."""
    if bound.several and bound.elementwise:
        return sum(least_by_search(bound.column(c), f[:, c], price) for c in range(bound.shape[1]))
    bias = float(bound.best_bias(f, price))
    kinks = [-f, *(bound.y - f + move for move in (-0.3, -0.2, 0.0, 0.2, 0.3))]
    places = np.concatenate([bias + np.array([-1e-4, 1e-4]), np.linspace(-12.0, 12.0, 2001), *kinks])
    values = bound.loss.value(f + places[:, None], bound.y, bound.C)
    return float(np.min(np.sum(values, axis=1) + price * places))


@pytest.mark.parametrize("case", [case for case in WITH_BIAS if case.loss.elementwise], ids=str)
@each_cost
def test_best_bias_is_best(case, rng, spread):
    for n in (3, 10, N):
        for _ in range(4):
            bound, f = draw(case, rng, spread, n)
            for price in sums_allowed(bound):
                least = least_by_search(bound, f, price)
                assert total(bound, f, price, bound.best_bias(f, price)) <= least + 1e-9 * abs(least)


@each_cost
def test_best_bias_of_all_classes_is_best(rng, spread):
    for n in (3, 10, N):
        bound, f = draw(Case(losses.Softmax()), rng, spread, n)
        bias = bound.best_bias(f)
        assert bias.shape == (3,) and abs(bias.sum()) <= 1e-9 * np.abs(bias).max()
        slope = np.sum(bound.slope(f + bias), axis=0)
        assert np.abs(slope).max() <= 1e-6 * bound.C.sum()
        least = minimize(lambda b, f=f, bound=bound: total(bound, f, 0.0, b), np.zeros(3)).fun
        assert total(bound, f, 0.0, bias) <= least + 1e-9 * abs(least)


@pytest.mark.parametrize("case", [case for case in WITH_BIAS if case.loss.elementwise and not case.columns], ids=str)
@each_cost
def test_best_bias_equals_the_general_search(case, rng, spread):
    bound, f = draw(case, rng, spread)
    for price in sums_allowed(bound):
        general = Loss.best_bias(case.loss, f, bound.y, bound.C, price)
        exact = total(bound, f, price, bound.best_bias(f, price))
        assert total(bound, f, price, general) == pytest.approx(exact, rel=1e-9)


@each_binary
def test_best_bias_with_ties_and_extreme_costs(loss):
    y = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    for C in (np.ones(5), np.array([1e6, 1.0, 1e-6, 1.0, 1.0]), np.array([3.0, 3.0, 2.0, 2.0, 2.0])):
        bound = loss.bind(y, C)
        for f in (np.zeros(5), y, -y):
            least = min(total(bound, f, 0.0, b) for b in np.linspace(-3.0, 3.0, 6001))
            assert total(bound, f, 0.0, bound.best_bias(f)) <= least * (1 + 1e-9) + 1e-9


@each_with_bias
def test_best_bias_moves_against_the_decision(case, rng):
    bound, f = draw(case, rng)
    for price in sums_allowed(bound):
        here, there = bound.best_bias(f, price), bound.best_bias(f + 5.0, price)
        ahead = price * 5.0 * (case.columns or 1)
        assert total(bound, f, price, here) == pytest.approx(total(bound, f + 5.0, price, there) + ahead, rel=1e-9)


def test_the_middle_of_a_flat_stretch_is_taken():
    assert flat_point(np.array([0.0, 1.0, 4.0, 9.0]), np.ones(4), -2.0) == 2.5
    assert flat_point(np.array([0.0, 1.0, 4.0, 9.0]), np.array([1.0, 1.0, 1.0, 2.0]), -2.0) == 2.5
    assert flat_point(np.array([0.0, 1.0, 4.0, 9.0]), np.ones(4), -2.5) == 4.0


def test_outliers_have_the_share_asked_for(rng):
    """With costs 1 / (nu n) and the price of the bias, the share nu of the samples is below zero, to one sample."""
    f = rng.normal(size=200)
    for nu in (0.01, 0.1, 0.5, 0.9):
        bound = losses.OneClass().bind(np.zeros(200), 1.0 / (nu * 200))
        below = np.sum(f + bound.best_bias(f, 1.0) < 0)
        assert nu * 200 - 1 <= below <= nu * 200


# -- parts and copies --


@each_case
def test_doubling_a_sample_is_doubling_its_cost(case, rng):
    bound, f = draw(case, rng)
    at = int(np.argmin(bound.C))
    twice = np.where(np.arange(N) == at, 2.0, 1.0)
    index = np.append(np.arange(N), at)
    y = targets_for(case.loss, np.random.default_rng(7), N, columns=case.columns)
    dearer, longer = case.loss.bind(y, twice * bound.C), case.loss.bind(y[index], bound.C[index])
    if not case.loss.takes_bias:
        assert total(dearer, f) == pytest.approx(total(longer, f[index]), rel=1e-9)
        return
    once = total(dearer, f, 0.0, dearer.best_bias(f))
    assert once == pytest.approx(total(longer, f[index], 0.0, longer.best_bias(f[index])), rel=1e-9)


@pytest.mark.parametrize("case", BY_SAMPLE, ids=str)
def test_part_of_the_samples(case, rng):
    bound, f = draw(case, rng)
    index = np.array([0, 1, 2, 11, 5])
    part = bound.take(index)
    assert part.n == 5 and part.shape == (5, *bound.shape[1:])
    assert_array_equal(part.C, bound.C[index])
    assert_allclose(part.value(f[index]), bound.value(f)[index], rtol=1e-12)
    assert_allclose(part.slope(f[index]), bound.slope(f)[index], rtol=1e-12)


@each_case
def test_larger_costs(case, rng):
    bound, f = draw(case, rng)
    larger = bound.times(3.0)
    assert_array_equal(larger.C, 3.0 * bound.C)
    assert total(larger, f) == pytest.approx(3.0 * total(bound, f), rel=1e-12)
    assert_allclose(larger.slope(f), 3.0 * bound.slope(f), rtol=1e-12, atol=1e-300)
    beta = bound.project(rng.normal(size=bound.shape))
    assert np.sum(larger.dual(3.0 * beta)) == pytest.approx(3.0 * np.sum(bound.dual(beta)), rel=1e-9)


@pytest.mark.parametrize("case", [case for case in CASES if case.columns], ids=str)
def test_columns_are_losses_of_their_own(case, rng):
    bound, f = draw(case, rng)
    assert bound.several and bound.shape == (N, case.columns)
    columns = [bound.column(c) for c in range(case.columns)]
    for name in ("value", "slope", "dual", "project"):
        expected = [getattr(column, name)(f[:, c]) for c, column in enumerate(columns)]
        assert_allclose(getattr(bound, name)(f), np.stack(expected, axis=1), rtol=1e-12)
    assert_allclose(bound.best_bias(f), [column.best_bias(f[:, c]) for c, column in enumerate(columns)])


@each_case
def test_shapes_and_zero(case, rng):
    bound, f = draw(case, rng)
    assert bound.n == N and bound.zero.shape == bound.shape == f.shape
    assert not bound.zero.any()
    assert bound.several is (len(bound.shape) == 2)
    assert (bound.smooth, bound.takes_bias, bound.elementwise) == (
        case.loss.smooth, case.loss.takes_bias, case.loss.elementwise
    )  # fmt: skip


@each_case
@each_cost
def test_libraries_agree(case, xp, rng, spread):
    bound, f = draw(case, rng, spread)
    there = bound.beside(xp.asarray(np.zeros(1).tolist(), dtype=xp.float64))
    g = xp.asarray(f.tolist(), dtype=xp.float64)
    assert bound.beside(f) is bound and there.beside(g) is there
    assert type(there.C) is type(there.zero) is type(g)
    for name in ("value", "slope", "dual", "project"):
        at = (bound.project(f), there.project(g)) if name == "dual" else (f, g)
        ours, theirs = getattr(bound, name)(at[0]), getattr(there, name)(at[1])
        assert type(theirs) is type(g)
        assert_allclose(to_host(theirs), ours, rtol=1e-12, atol=1e-12)
    if case.loss.smooth:
        ours, theirs = bound.curvature_times(f, f), there.curvature_times(g, g)
        assert_allclose(to_host(theirs), ours, rtol=1e-12, atol=1e-12)
    if bound.terms is not None:
        for ours, theirs in zip(bound.terms.parts, there.terms.parts, strict=True):
            assert_array_equal(to_host(theirs), ours)
    beta, other = bound.project(f), there.project(g)
    assert there.dual_scale(other, 3.0) == pytest.approx(bound.dual_scale(beta, 3.0), rel=1e-12)
    for price in sums_allowed(bound) if case.loss.takes_bias else []:
        assert_allclose(to_host(there.balance(other, price)), bound.balance(beta, price), rtol=1e-9, atol=1e-12)
        ours, theirs = bound.best_bias(f, price), there.best_bias(g, price)
        assert_allclose(to_host(theirs) if hasattr(theirs, "shape") else theirs, ours, rtol=1e-9, atol=1e-9)


# -- for compiled code --


def compiled_rows(bound):
    """Yield each sample's number, own class and table; where duals are single, rows have one."""
    kind, table, own = bound.compiled
    for i in range(bound.n):
        yield kind, i, int(own[i]), table


@each_compiled
@each_cost
def test_compiled_response_is_minus_the_slope(case, rng, spread):
    bound, _ = draw(case, rng, spread)
    for scale in (0.1, 2.0, 30.0):
        f = scale * rng.normal(size=bound.shape)
        expected = -bound.slope(f).reshape(N, -1)
        for kind, i, own, table in compiled_rows(bound):
            row = np.ascontiguousarray(f[i : i + 1].reshape(-1))
            out = np.empty(row.size)
            duals.response(kind, row, own, table, i, out)
            assert_allclose(out, expected[i], rtol=1e-11, atol=1e-14 * bound.C[i])


@each_compiled
def test_compiled_shortfall_is_the_gap_of_a_sample(case, rng):
    bound, f = draw(case, rng)
    for size in (0.1, 1.0, 10.0):
        beta = bound.project(size * rng.normal(size=bound.shape))
        expected = bound.gaps(f, beta)
        for kind, i, own, table in compiled_rows(bound):
            row, dual = (np.ascontiguousarray(part[i : i + 1].reshape(-1)) for part in (f, beta))
            assert duals.shortfall(kind, row, dual, own, table, i) == pytest.approx(expected[i], rel=1e-9, abs=1e-10)


SINGLE = [case for case in COMPILED if case.loss.elementwise]


@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_compiled_target_is_where_the_model_is_least(case, rng):
    """``gradient b + curvature (b - beta)^2 / 2 - D(b)``, whose kink and bounds the target has to know."""
    for _ in range(200):
        bound, _ = draw(case, rng, n=3)
        kind, table, _ = bound.compiled
        beta = bound.project(rng.normal(scale=3.0, size=3))
        curvature, gradient = 10.0 ** rng.uniform(-3, 3), rng.normal(scale=10.0 ** rng.uniform(-2, 2), size=3)
        new = np.array([duals.target(kind, gradient[i], curvature, beta[i], *table[:, i]) for i in range(3)])
        assert np.all((bound.box.lower <= new) & (new <= bound.box.upper))

        def model(b, bound=bound, beta=beta, gradient=gradient, curvature=curvature):
            return gradient * b + 0.5 * curvature * (b - beta) ** 2 - bound.dual(b)

        here = model(new)
        for step in (1e-4, 1e-2, 0.3):
            for move in (-step, step):
                other = bound.project(new + move * bound.C)
                assert np.all(here <= model(other) + 1e-10 * (1.0 + np.abs(here)))


@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_compiled_slopes_are_those_of_the_dual(case, rng):
    bound, _ = draw(case, rng)
    kind, table, _ = bound.compiled
    beta = bound.project(rng.normal(size=N))
    lower, upper = np.maximum(bound.box.lower, -10.0), np.minimum(bound.box.upper, 10.0)
    beta = 0.9 * beta + 0.05 * (lower + upper) * (rng.random(N) + 0.1)  # within the bounds
    linear, ridge, low, high, kink = table
    for i in range(N):
        step = 1e-6 * max(abs(beta[i]), 1e-3)

        def smooth(b, i=i):  # its kink is left out
            row = bound.take(np.array([i]))
            return float(row.dual(np.array([b]))[0]) + kink[i] * abs(b)

        slope = (smooth(beta[i] + step) - smooth(beta[i] - step)) / (2 * step)
        rise = duals.rise(kind, beta[i], linear[i], ridge[i], low[i], high[i])
        assert rise == pytest.approx(slope, rel=1e-4, abs=1e-4)
        bend = duals.bend(kind, beta[i], ridge[i], low[i], high[i])
        curve = (smooth(beta[i] + 50 * step) - 2 * smooth(beta[i]) + smooth(beta[i] - 50 * step)) / (50 * step) ** 2
        assert bend == pytest.approx(-curve, rel=1e-2, abs=1e-2)
        assert duals.ease(kind, 0.0, beta[i], ridge[i], low[i], high[i]) <= bend * (1 + 1e-12)


def test_steepest_is_the_least_slope_at_a_kink():
    assert duals.steepest(0.7, 0.0, 0.0) == 0.7
    assert duals.steepest(0.7, 0.0, 0.5) == pytest.approx(0.2)
    assert duals.steepest(-0.7, 0.0, 0.5) == pytest.approx(-0.2)
    assert duals.steepest(0.3, 0.0, 0.5) == 0.0
    assert duals.steepest(0.3, 2.0, 0.5) == pytest.approx(0.8)
    assert duals.steepest(0.3, -2.0, 0.5) == pytest.approx(-0.2)


def test_compiled_rows_of_a_margin_go_where_the_model_is_least(rng):
    bound, _ = draw(Case(losses.CrammerSinger()), rng)
    for _ in range(20):
        beta = bound.project(2.0 * rng.normal(size=bound.shape))
        for i in range(N):
            gradient, curvature = rng.normal(scale=2.0, size=3), 10.0 ** rng.uniform(-2, 2)
            own, cost, out = int(bound.y[i]), float(bound.C[i]), np.empty(3)
            gain = duals.row_target(gradient, own, cost, curvature, np.ascontiguousarray(beta[i]), out)
            one = bound.take(np.array([i, 0, 1, 2]))  # so that all classes are there

            def model(row, beta=beta[i], gradient=gradient, curvature=curvature, own=own):
                return float(gradient @ row + 0.5 * curvature * np.sum((row - beta) ** 2) - row[own])

            assert out.sum() == pytest.approx(0.0, abs=1e-12 * cost) and out[own] <= cost
            assert gain == pytest.approx(model(beta[i]) - model(out), rel=1e-6, abs=1e-8)
            for size in (1e-3, 0.1, 1.0):
                other = one.project(np.stack([out + size * rng.normal(size=3)] + 3 * [np.zeros(3)]))[0]
                assert model(out) <= model(other) + 1e-9 * (1.0 + abs(model(out)))


def test_kinds_that_compiled_code_knows():
    kinds = {str(case): case.bind(np.random.default_rng(0), 6).compiled for case in CASES}
    assert {name: known[0] for name, known in kinds.items() if known is not None} == {
        **{str(case): QUADRATIC for case in WITH_TERMS if not case.columns},
        "Logistic": ENTROPY,
        "CrammerSinger": MARGIN,
        "Softmax": SOFTMAX,
    }


def test_a_changed_slope_is_not_answered_by_the_old_rule():
    class Doubled(losses.Hinge):
        def slope(self, f, y, C):
            return 2.0 * super().slope(f, y, C)

    assert losses.Hinge().bind([1.0, -1.0]).compiled is not None
    assert Doubled().bind([1.0, -1.0]).compiled is None


def test_a_loss_of_ones_own_with_terms_is_compiled(rng):
    class Deadzone(losses.Loss):
        """The epsilon-insensitive loss again, by its dual's description alone."""

        tasks = ("regression",)

        def value(self, f, y, C):
            return C * np.maximum(np.abs(y - f) - 0.2, 0.0)

        def slope(self, f, y, C):
            return -C * np.sign(y - f) * (np.abs(y - f) > 0.2)

        def terms(self, y, C):
            return DualTerms(y, 0.0 * y, -C + 0.0 * y, C + 0.0 * y, 0.2 + 0.0 * y)

    own, known = Deadzone().bind(rng.normal(size=5), 2.0), losses.EpsilonInsensitive(0.2)
    twin = known.bind(own.y, 2.0)
    beta = rng.normal(size=5)
    assert_allclose(own.dual(beta), twin.dual(beta))
    assert_array_equal(own.compiled[1], twin.compiled[1])
    assert total(own, beta, 0.0, own.best_bias(beta)) == pytest.approx(total(twin, beta, 0.0, twin.best_bias(beta)))


# -- classes and their probabilities --


def test_losses_of_two_classes_and_of_all():
    assert isinstance(losses.Hinge().joint(), losses.CrammerSinger)
    assert isinstance(losses.Logistic().joint(), losses.Softmax)
    assert losses.SquaredHinge().joint() is None and losses.Huber().joint() is None
    assert isinstance(losses.CrammerSinger().binary(), losses.Hinge)
    assert isinstance(losses.Softmax().binary(), losses.Logistic)
    assert isinstance(losses.Squared().binary(), losses.Squared)


def test_probabilities_are_those_of_the_likelihood(rng):
    f = rng.normal(scale=3.0, size=7)
    two = losses.Logistic().probabilities(f)
    assert_allclose(two[:, 1], 1.0 / (1.0 + np.exp(-f)))
    assert_allclose(losses.Softmax().probabilities(np.stack([np.zeros(7), f], axis=1)), two)
    many = losses.Softmax().probabilities(rng.normal(size=(7, 4)))
    assert_allclose(many.sum(axis=1), 1.0)
    with pytest.raises(NotImplementedError):
        losses.Hinge().probabilities(f)


def test_two_classes_at_once_are_the_logistic_loss(rng):
    y, f = rng.integers(0, 2, 9).astype(float), rng.normal(size=9)
    both = losses.Softmax().bind(y).value(np.stack([-f / 2, f / 2], axis=1))
    assert_allclose(both, losses.Logistic().bind(2.0 * y - 1.0).value(f))


# -- parameters and targets --


@each_loss
def test_losses_are_parameters_and_nothing_else(loss):
    assert repr(clone(loss)) == repr(loss)
    assert str(loss.bind(targets_for(loss, np.random.default_rng(0), 8))) == str(loss)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (losses.EpsilonInsensitive(-0.1), "epsilon must be a number from 0 on, in the units of y; got -0.1"),
        (losses.SquaredEpsilonInsensitive("a"), "epsilon must be a number from 0 on"),
        (losses.EpsilonInsensitive(np.inf), "epsilon must be a number from 0 on"),
        (losses.Huber(0.0), "delta must be a number above 0, in the units of y; got 0.0"),
        (losses.Huber(np.nan), "delta must be a number above 0"),
        (losses.Quantile(0.0), "level must be a number between 0 and 1, both left out: 0.5 is the median; got 0.0"),
        (losses.Quantile(1.0), "level must be a number between 0 and 1"),
        (losses.Quantile(True), "level must be a number between 0 and 1"),
    ],
)
def test_bad_parameters_are_refused(loss, words):
    with pytest.raises(ValueError, match=words):
        loss.bind(np.zeros(3))


@pytest.mark.parametrize(
    ("loss", "y", "words"),
    [
        (losses.Hinge(), [0.0, 1.0], r"y must hold -1 and \+1 for Hinge"),
        (losses.Logistic(), [[1.0], [-1.0]], r"y has shape \(2, 1\), but Logistic takes one number for each sample"),
        (losses.Squared(), [1.0, np.inf], "y holds infinite values or NaN"),
        (losses.Huber(), [1.0, np.nan], "y holds infinite values or NaN"),
        (losses.Quantile(), np.zeros((2, 2, 2)), r"y has shape \(2, 2, 2\)"),
        (losses.CrammerSinger(), [0.0, 0.5], "whole numbers from 0 on"),
        (losses.Softmax(), [-1.0, 1.0], "whole numbers from 0 on"),
        (losses.OneClass(), np.zeros((2, 2)), "OneClass takes one number for each sample"),
        (losses.Cox(), [1.0, 2.0], r"y has shape \(2,\), but Cox takes two columns"),
        (losses.Cox(), [[2.0, 1.0], [1.0, 2.0]], "by 1 and 0 whether the event was seen"),
        (losses.Cox(), [[0.0, 1.0], [0.0, 2.0]], "y holds no event at all"),
        (losses.Cox(), [[1.0, -1.0], [0.0, 2.0]], "Times in y must be finite and not negative"),
        (losses.Cox(), [[1.0, np.inf], [0.0, 2.0]], "Times in y must be finite and not negative"),
    ],
)
def test_targets_that_make_no_sense_are_refused(loss, y, words):
    with pytest.raises(ValueError, match=words):
        loss.bind(np.asarray(y))


@each_loss
@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf, [1.0] * 7 + [0.0]])
def test_costs_that_make_no_sense_are_refused(loss, C, rng):
    with pytest.raises(ValueError, match="C must be a positive finite number"):
        loss.bind(targets_for(loss, rng, 8), C)
    with pytest.raises(ValueError, match=r"C has shape \(3,\): give one number, or one for each of the 8 samples"):
        loss.bind(targets_for(loss, rng, 8), np.ones(3))


def test_a_loss_without_a_dual_says_what_it_needs():
    class Bare(losses.Loss):
        pass

    with pytest.raises(NotImplementedError, match="Bare must define `dual`, or `terms`"):
        Bare().bind([1.0]).dual(np.zeros(1))


def test_duals_that_are_balanced_but_for_rounding_stay_as_they_are():
    rng = np.random.default_rng(0)
    for n in (10, 300, 3000):
        loss = losses.Hinge().bind(np.where(rng.random(n) < 0.4, 1.0, -1.0), 10.0)
        once = loss.balance(loss.project(rng.normal(size=n)))
        assert abs(once.sum()) <= 1e-15 * np.abs(once).sum()
        assert np.array_equal(loss.balance(once), once)
