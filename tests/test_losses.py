"""Laws of losses: every instance in LOSSES goes through all of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from kernelweave import losses
from kernelweave.arrays import to_host
from kernelweave.losses.base import Loss
from registry import JOINT, LOSSES, exported, label, names

N = 41
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=label)
each_cost = pytest.mark.parametrize("spread", [0.0, 1.0], ids=["one C", "own C"])


def draw(rng, spread=1.0, n=N):
    """Return decision values, labels (a third of them positive) and costs."""
    y = np.where(rng.random(n) < 1 / 3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return rng.normal(scale=2.0, size=n), y, 1.7 * np.exp(spread * rng.normal(size=n))


def box_of(loss, y, C):
    """Return the box of feasible duals; the logistic loss has the hinge's."""
    return (loss if hasattr(loss, "quadratic") else losses.Hinge()).quadratic(y, C)


def total(loss, f, y, C):
    return float(np.sum(loss.value(f, y, C)))


def test_every_loss_is_registered():
    assert exported(losses) == names(LOSSES + JOINT)


@each_loss
def test_value_is_convex_and_its_slope_a_subgradient(loss, rng):
    f, y, C = draw(rng)
    for g in rng.normal(scale=2.0, size=(50, N)):
        below = loss.value(f, y, C) + loss.slope(f, y, C) * (g - f)
        assert np.all(loss.value(g, y, C) >= below - 1e-12)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if hasattr(loss, "bend")], ids=label)
def test_bend_is_the_derivative_of_the_slope(loss, rng):
    f, y, C = draw(rng)
    differences = (loss.slope(f + 1e-6, y, C) - loss.slope(f - 1e-6, y, C)) / 2e-6
    assert_allclose(loss.bend(f, y, C), differences, atol=1e-7 * C.max())


@each_loss
def test_fenchel_young_inequality(loss, rng):
    f, y, C = draw(rng)
    for beta in rng.normal(scale=5.0, size=(50, N)):
        beta = loss.project(beta, y, C)
        terms = loss.value(f, y, C) - loss.dual(beta, y, C) + beta * f
        assert terms.min() >= -1e-12


@each_loss
def test_fenchel_young_equality_at_the_slope(loss, rng):
    f, y, C = draw(rng)
    beta = -loss.slope(f, y, C)
    assert_allclose(loss.value(f, y, C) + beta * f, loss.dual(beta, y, C), atol=1e-12)


@each_loss
def test_dual_is_the_least_of_loss_plus_linear(loss, rng):
    grid = np.linspace(-400.0, 400.0, 160_001)
    for y, C, share in [(1.0, 2.0, 0.3), (-1.0, 2.0, 0.9), (1.0, 0.5, 0.0), (-1.0, 0.5, 1.0)]:
        beta = np.array([y * C * share])
        least = np.min(loss.value(grid, np.full(grid.size, y), np.full(grid.size, C)) + beta * grid)
        assert loss.dual(beta, np.array([y]), np.array([C]))[0] == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if hasattr(loss, "quadratic")], ids=label)
def test_dual_is_the_box_quadratic(loss, rng):
    _, y, C = draw(rng)
    box = loss.quadratic(y, C)
    beta = loss.project(rng.normal(size=N), y, C)
    assert np.all((box.lower <= beta) & (beta <= box.upper))
    assert np.all((box.lower <= 0) & (box.upper >= 0))
    assert_allclose(loss.dual(beta, y, C), box.linear * beta - 0.5 * box.ridge * beta**2, rtol=1e-12)


def test_values_of_known_losses():
    f, y, C = np.array([2.0, 0.5, 0.5]), np.array([1.0, 1.0, -1.0]), np.array([1.0, 2.0, 4.0])
    assert_allclose(losses.Hinge().value(f, y, C), [0.0, 1.0, 6.0])
    assert_allclose(losses.SquaredHinge().value(f, y, C), [0.0, 0.25, 4.5])
    assert_allclose(losses.Squared().value(f, y, C), [0.5, 0.25, 4.5])
    assert_array_equal(losses.Hinge().quadratic(y, C).upper, [1.0, 2.0, 0.0])
    assert_array_equal(losses.Hinge().quadratic(y, C).lower, [0.0, 0.0, -4.0])


# -- feasible duals --


@each_loss
@each_cost
def test_projection_is_feasible_and_keeps_feasible_points(loss, rng, spread):
    _, y, C = draw(rng, spread)
    box = box_of(loss, y, C)
    for size in (1e-8, 1.0, 1e6):
        for beta in rng.normal(scale=size, size=(20, N)):
            once = loss.project(beta, y, C)
            assert np.all((box.lower <= once) & (once <= box.upper))
            assert_allclose(loss.project(once, y, C), once, rtol=1e-12)
            level = loss.balance(once)
            assert np.all((box.lower <= level) & (level <= box.upper))
            assert abs(level.sum()) <= 1e-13 * np.abs(level).sum()
            assert_allclose(loss.balance(level), level, rtol=1e-12)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge()], ids=label)
def test_balance_of_one_sided_duals_is_zero_for_a_margin(loss, rng):
    _, y, C = draw(rng)
    assert_array_equal(loss.balance(loss.project(np.where(y > 0, 1.0, 0.0), y, C)), np.zeros(N))


def test_balance_of_free_duals_takes_their_mean_away(rng):
    beta, _, _ = draw(rng)
    moved = beta - losses.Squared().balance(beta)
    assert_allclose(moved, np.mean(beta), rtol=1e-12)


@each_loss
@each_cost
def test_stretch_never_lowers_the_dual_and_stays_feasible(loss, rng, spread):
    _, y, C = draw(rng, spread)
    box = box_of(loss, y, C)
    for beta in rng.normal(scale=rng.choice([1e-3, 1.0, 10.0], 50)[:, None], size=(50, N)):
        beta, h = loss.project(beta, y, C), rng.exponential(30.0)
        s = loss.stretch(beta, y, C, h)
        value = [float(np.sum(loss.dual(t * beta, y, C))) - t**2 * h for t in (1.0, s, 0.99 * s)]
        assert value[1] >= value[0] - 1e-10 * abs(value[0])
        assert value[1] >= value[2] - 1e-10 * abs(value[2])
        inside = (box.lower * (1 + 1e-12) <= s * beta) & (s * beta <= box.upper * (1 + 1e-12))
        assert np.all(inside)


@each_loss
def test_stretch_of_zero_is_one(loss, rng):
    _, y, C = draw(rng)
    assert loss.stretch(np.zeros(N), y, C, 0.0) == 1.0


# -- the bias --


@each_loss
@each_cost
def test_best_bias_is_best(loss, rng, spread):
    for n in (2, 3, 10, N):
        for _ in range(10):
            f, y, C = draw(rng, spread, n)
            bias = loss.best_bias(f, y, C)
            kinks = np.concatenate([y - f, np.linspace(-12.0, 12.0, 2001), bias + np.array([-1e-4, 1e-4])])
            least = min(total(loss, f + b, y, C) for b in kinks)
            assert total(loss, f + bias, y, C) <= least + 1e-9 * abs(least)


@each_loss
@each_cost
def test_best_bias_equals_the_general_search(loss, rng, spread):
    f, y, C = draw(rng, spread)
    general = Loss.best_bias(loss, f, y, C)
    exact = total(loss, f + loss.best_bias(f, y, C), y, C)
    assert total(loss, f + general, y, C) == pytest.approx(exact, rel=1e-9)


@each_loss
def test_best_bias_with_ties_and_extreme_costs(loss):
    y = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    for C in (np.ones(5), np.array([1e6, 1.0, 1e-6, 1.0, 1.0]), np.array([3.0, 3.0, 2.0, 2.0, 2.0])):
        for f in (np.zeros(5), y, -y):
            bias = loss.best_bias(f, y, C)
            least = min(total(loss, f + b, y, C) for b in np.linspace(-3.0, 3.0, 6001))
            assert total(loss, f + bias, y, C) <= least * (1 + 1e-9) + 1e-9


@each_loss
def test_best_bias_moves_against_the_decision(loss, rng):
    f, y, C = draw(rng)
    assert total(loss, f + loss.best_bias(f, y, C), y, C) == pytest.approx(
        total(loss, f + 5.0 + loss.best_bias(f + 5.0, y, C), y, C), rel=1e-9
    )


@each_loss
def test_doubling_a_sample_is_doubling_its_cost(loss, rng):
    f, y, C = draw(rng)
    twice = np.where(np.arange(N) == 3, 2.0, 1.0)
    longer = [np.append(array, array[3]) for array in (f, y, C)]
    once = total(loss, f + loss.best_bias(f, y, twice * C), y, twice * C)
    again = total(loss, longer[0] + loss.best_bias(*longer), *longer[1:])
    assert once == pytest.approx(again, rel=1e-9)


@each_loss
def test_losses_are_parameters_and_nothing_else(loss):
    assert repr(clone(loss)) == repr(loss)


@each_loss
@each_cost
def test_libraries_agree(loss, xp, rng, spread):
    host = draw(rng, spread)
    f, y, C = (xp.asarray(values.tolist(), dtype=xp.float64) for values in host)
    for name in ("value", "slope", "dual", "project"):
        theirs = getattr(loss, name)(f, y, C)
        assert type(theirs) is type(f)
        assert_allclose(to_host(theirs), getattr(loss, name)(*host), rtol=1e-14, atol=1e-14)
    for name in ("linear", "ridge", "lower", "upper") if hasattr(loss, "quadratic") else ():
        ours = getattr(loss.quadratic(*host[1:]), name)
        assert_array_equal(to_host(getattr(loss.quadratic(y, C), name)), ours)
    assert loss.best_bias(f, y, C) == pytest.approx(loss.best_bias(*host), rel=1e-12)
    assert loss.stretch(loss.project(f, y, C), y, C, 3.0) == pytest.approx(
        loss.stretch(loss.project(*host), *host[1:], 3.0), rel=1e-12
    )


def test_stretch_of_duals_at_their_bounds_is_quiet():
    y, C = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1e-6, 1.0, 1.0, 1.0])
    s = losses.Logistic().stretch(y * np.array([1e-6, 0.1, 0.05, 0.05]), y, C, 1e-9)
    assert 0.99 < s <= 1.0
