"""Laws of mixing penalties: every instance in PENALTIES goes through all that apply to it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from kernelweave import penalties
from kernelweave.penalties.base import MixingPenalty
from kernelweave.penalties.prox import project_simplex
from registry import EXTREMES, PAIRED, PENALTIES, TOOLS, M, exported, label, names, rearranged, sized

ALL = PENALTIES + EXTREMES + TOOLS
DRAWS = 20
SPEC = [
    (penalties.MoreauYosida(a=0.5), 1.6, (0.8, 0, 0)),
    (penalties.MoreauYosida(a=1.0), 1.0, (0.5, 0, 0)),
    (penalties.Lp(2), 2.06533896, (0.96836405, 0.24209101, 0.06052275)),
    (penalties.Lp(4 / 3), 2.00195788, (0.99706892, 0.01557920, 0.00024343)),
    (penalties.ElasticNet(0.6, 0.5), 2.12, (1.4, 0.8, 0)),
    (penalties.L1(), 2.0, (1, 0, 0)),
    (penalties.Lp(np.inf), 2.625, (1, 1, 1)),
    (penalties.Fixed(), 0.875, (1 / 3, 1 / 3, 1 / 3)),
    (penalties.Group(["a", "a", "b"], np.inf, 2), 2.50312305, (0.99875234, 0.99875234, 0.04993762)),
]


def gives(*needed):
    """Parametrize over the penalties that have all the methods ``needed``."""
    having = [p for p in ALL if all(getattr(type(p), n) is not getattr(MixingPenalty, n) for n in needed)]
    return pytest.mark.parametrize("penalty", having, ids=label)


PRICED = [penalty for penalty in ALL if penalty.weight_prices(np.full(M, 0.5)) is not None]
priced = pytest.mark.parametrize("penalty", PRICED, ids=label)


def energies(seed=0, m=M):
    """Yield generic energies of very different sizes, no two close enough for a kink."""
    rng = np.random.default_rng(seed)
    for size in np.geomspace(1e-2, 1e3, DRAWS):
        yield size * rng.permutation(np.linspace(0.3, 1.7, m)) * rng.uniform(0.95, 1.05, m)


def differences(function, q, step=1e-6):
    """Return central differences of ``function``, one row per coordinate of ``q``."""
    rows = []
    for k in range(q.size):
        move = np.zeros(q.size)
        move[k] = step * q[k]
        rows.append((function(q + move) - function(q - move)) / (2 * move[k]))
    return np.array(rows)


def away_from_kinks(penalty, q):
    """Whether no weight appears or vanishes next to ``q``, where a second derivative would jump."""
    support = [penalty.weights(q * (1 + s * e)) > 0 for s in (-1e-4, 1e-4) for e in np.eye(q.size)]
    return np.all(support == (penalty.weights(q) > 0))


def used(penalty, u):
    """Return the block norms ``u`` without the blocks that the penalty forbids."""
    return u if np.isfinite(penalty.norm(u)) else u * (penalty.weights(u) > 0)


def test_every_penalty_is_registered():
    assert exported(penalties) == names(PENALTIES + PAIRED)


# -- the three faces agree --


@gives("value")
def test_weights_are_twice_the_gradient(penalty):
    for q in energies():
        assert_allclose(2 * differences(penalty.value, q), penalty.weights(q), rtol=1e-5, atol=1e-7)


@gives("curvature")
def test_curvature_is_the_jacobian_of_the_weights(penalty):
    smooth = [q for q in energies() if away_from_kinks(penalty, q)]
    assert len(smooth) >= DRAWS // 2
    for q in smooth:
        expected = differences(penalty.weights, q).T
        assert_allclose(penalty.curvature(q), expected, rtol=1e-4, atol=1e-6 * max(1.0, 1.0 / q.min()))


@gives("curvature")
def test_curvature_is_symmetric_and_positive_semidefinite(penalty):
    for q in energies():
        J, small = penalty.curvature(q), 1e-9 * penalty.weights(q).max() / q.max()
        assert_allclose(J, J.T, rtol=1e-9, atol=small)
        assert np.linalg.eigvalsh(0.5 * (J + J.T)).min() >= -small


@gives("curvature")
def test_curvature_times_columns_is_the_product(penalty, rng):
    x = rng.normal(size=(M, 3))
    for q in [*energies(), np.eye(M)[0]]:
        expected = penalty.curvature(q) @ x
        assert_allclose(penalty.curvature_times(q, x), expected, atol=1e-10 * max(np.abs(expected).max(), 1.0))


@gives("curvature")
def test_curvature_is_finite_where_energies_vanish(penalty):
    for q in [np.zeros(M), np.eye(M)[0], np.r_[np.ones(3), np.full(M - 3, 1e-200)]]:
        assert np.all(np.isfinite(penalty.curvature(q)))


@gives("value", "norm")
def test_fenchel_inequality_with_equality_at_the_weights(penalty, rng):
    for q in energies():
        h, root, w = penalty.value(q), np.sqrt(q), penalty.weights(q)
        for u in rng.exponential(size=(10, M)) * root * rng.integers(0, 2, (10, M)):
            assert u @ root - penalty.norm(u) <= h * (1 + 1e-12)
        assert_allclose((w * root) @ root - penalty.norm(w * root), h, rtol=1e-9)


@gives("value", "norm", "weights_of_norms")
def test_weights_of_norms_attain_the_norm(penalty, rng):
    """With ``q = (u/w)^2``, where w is optimal, ``1/2 sum u^2/w + r(w) = w'q - h(q)``."""
    for u in rng.exponential(size=(DRAWS, M)):
        u = used(penalty, u)
        w = penalty.weights_of_norms(u)
        q = np.divide(u, w, out=np.zeros(M), where=w > 0) ** 2
        assert_allclose(w @ q - penalty.value(q), penalty.norm(u), rtol=1e-8)
        if penalty.smooth:
            assert_allclose(penalty.weights(q)[u > 0], w[u > 0], rtol=1e-6, atol=1e-12)


@gives("value", "norm", "weights_of_norms")
def test_no_other_weights_do_better_than_the_norm(penalty, rng):
    """The weights of any other energies q have ``r(w) = 1/2 w'q - h(q)``."""
    for u, q in zip(rng.exponential(size=(DRAWS, M)), energies(), strict=True):
        w = penalty.weights(q)
        u = np.where(w > 0, u, 0.0)
        price = 0.5 * w @ q - penalty.value(q)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            total = 0.5 * np.sum(np.where(w > 0, u**2 / w, 0.0)) + price
        assert penalty.norm(u) <= total * (1 + 1e-9) + 1e-12


@gives("value", "weights_of_norms")
def test_weights_of_norms_are_allowed(penalty, rng):
    """Allowed weights of a set-type penalty obey ``1/2 w'q <= h(q)`` for every q."""
    if penalty.homogeneous:
        for u, q in zip(rng.exponential(size=(DRAWS, M)), energies(), strict=True):
            assert 0.5 * penalty.weights_of_norms(u) @ q <= penalty.value(q) * (1 + 1e-9)


@gives("value")
def test_homogeneous_where_it_says_so(penalty):
    if not penalty.homogeneous:
        values = [(penalty.value(q), penalty.value(2 * q)) for q in energies()]
        assert any(abs(doubled - 2 * h) > 1e-3 * h for h, doubled in values)
        return
    for q in energies():
        h, w = penalty.value(q), penalty.weights(q)
        assert_allclose(penalty.value(2 * q), 2 * h, rtol=1e-12)
        assert_allclose(penalty.weights(2 * q), w, rtol=1e-10)
        assert_allclose(0.5 * w @ q, h, rtol=1e-10)


@gives("value")
def test_value_is_convex_and_does_not_fall(penalty):
    for a, b in zip(energies(1), energies(2), strict=True):
        middle = penalty.value(0.5 * (a + b))
        assert middle <= 0.5 * (penalty.value(a) + penalty.value(b)) * (1 + 1e-12)
        assert penalty.value(a + b) >= penalty.value(a) * (1 - 1e-12)


@pytest.mark.parametrize("penalty", ALL, ids=label)
def test_weights_are_finite_and_not_negative(penalty):
    awkward = [np.zeros(M), np.eye(M)[2], np.full(M, -1e-18), np.full(M, 1e-300), np.full(M, 1e300)]
    for q in [*energies(), *awkward]:
        w = penalty.weights(q)
        assert w.shape == (M,)
        assert np.all(np.isfinite(w))
        assert np.all(w >= 0)


# -- prices of weights --


@priced
def test_tolls_have_the_derivatives_they_say(penalty, rng):
    for _ in range(DRAWS):
        w = rng.uniform(0.05, 0.9, M) * np.minimum(penalty.ceiling(M), 1.5)
        price, slope, bend = penalty.weight_prices(w)
        assert np.all(price > 0) and np.all(slope > 0) and np.all(bend >= 0)
        h = 1e-6 * w
        up, down = penalty.weight_prices(w + h), penalty.weight_prices(w - h)
        assert_allclose((up[0] - down[0]) / (2 * h), slope, rtol=1e-7)
        assert_allclose((up[1] - down[1]) / (2 * h), bend, rtol=1e-6, atol=1e-8)


@priced
def test_weights_are_where_prices_and_energies_balance(penalty):
    """The energies are one multiple of the slopes of the prices, below that where a weight is zero."""
    for q in energies():
        w = penalty.weights(q)
        live = w > 0
        floor = np.full(M, 1e-300)  # a weight as good as zero, where a power of it still has a slope
        price, slope, _ = penalty.weight_prices(np.where(live, w, floor))
        assert np.all(w < penalty.ceiling(M))
        assert np.sum(price) == pytest.approx(1.0, rel=1e-9)
        t = np.max(q[live] / slope[live])
        assert_allclose(t * slope[live], q[live], rtol=1e-8)
        assert np.all(q[~live] <= t * slope[~live] * (1 + 1e-12))


def test_penalties_whose_prices_add_up_name_them():
    assert names(PRICED) == {"L1", "Lp", "MoreauYosida"}
    assert penalties.Lp(np.inf).weight_prices(np.full(M, 0.5)) is None


# -- compiled rules --


@gives("compiled")
def test_compiled_rule_equals_weights(penalty, rng):
    rule, params = penalty.compiled(M)
    awkward = [np.zeros(M), np.eye(M)[3], np.ones(M), -1e-18 * np.eye(M)[0] + np.eye(M)[1], np.full(M, 1e-30)]
    for q in [*energies(), *awkward, *(rng.exponential(size=(DRAWS, M)) * rng.integers(0, 2, (DRAWS, M)))]:
        out = np.full(M, np.nan)
        rule(params, q, out)
        assert_allclose(out, penalty.weights(q), rtol=1e-8, atol=1e-14)


# -- kernels may be permuted, left out, or empty --


@pytest.mark.parametrize("penalty", ALL, ids=label)
def test_permuting_kernels_permutes_the_weights(penalty, rng):
    for q in energies():
        order = rng.permutation(M)
        moved = rearranged(penalty, order).weights(q[order])
        assert_allclose(moved, penalty.weights(q)[order], rtol=1e-9, atol=1e-14)


@gives("value", "norm")
def test_permuting_kernels_leaves_values(penalty, rng):
    for q in energies():
        order = rng.permutation(M)
        other = rearranged(penalty, order)
        assert_allclose(other.value(q[order]), penalty.value(q), rtol=1e-12)
        assert_allclose(other.norm(used(penalty, q)[order]), penalty.norm(used(penalty, q)), rtol=1e-12)


@gives("restrict")
def test_restriction_keeps_the_weights_of_the_kernels_that_stay(penalty):
    for q in energies():
        w = penalty.weights(q)
        index = np.flatnonzero(w > 0)
        if index.size:
            assert_allclose(penalty.restrict(index, M).weights(q[index]), w[index], rtol=1e-9)


@gives("restrict", "value", "norm")
def test_restriction_is_the_penalty_with_the_others_at_zero(penalty, rng):
    if penalty in TOOLS:
        pytest.skip("a stage keeps its centre where the others are left out")
    for q in energies():
        index = np.sort(rng.choice(M, 3, replace=False))
        part, padded = penalty.restrict(index, M), np.zeros(M)
        padded[index] = q[index]
        assert_allclose(part.value(q[index]), penalty.value(padded), rtol=1e-12)
        assert_allclose(part.norm(q[index]), penalty.norm(padded), rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES + EXTREMES, ids=label)
def test_rounding_below_zero_counts_as_zero(penalty):
    for q in energies():
        q[:2] = 0.0
        assert penalty.value(np.where(q > 0, q, -1e-12)) == penalty.value(q)


@gives("value")
def test_at_zero_energy(penalty):
    q = np.zeros(M)
    assert penalty.value(q) == pytest.approx(0.0, abs=1e-15) or penalty in TOOLS
    if penalty.homogeneous and penalty.smooth:
        assert_allclose(penalty.weights(q), penalty.weights(np.ones(M)), rtol=1e-12)


@pytest.mark.parametrize("penalty", [penalties.Lp(2), penalties.Lp(1.05), penalties.MoreauYosida()])
def test_an_empty_kernel_gets_no_weight(penalty):
    q = np.array([3.0, 0.0, 2.0])
    assert penalty.weights(q)[1] == 0
    assert_allclose(penalty.weights(q)[[0, 2]], penalty.weights(q[[0, 2]]), rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES + EXTREMES, ids=label)
def test_one_kernel_gets_its_whole_share(penalty):
    one = sized(penalty, 1)
    w = one.weights(np.array([3.7]))
    if isinstance(penalty, penalties.MoreauYosida):
        a, d = np.ravel(one.a)[0], np.ravel(one.d)[0]
        assert_allclose(w, 1 / (a**2 + d**2), rtol=1e-12)
    elif isinstance(penalty, penalties.Lp | penalties.Group):
        assert_allclose(w, 1.0, rtol=1e-12)


# -- numbers --


@pytest.mark.parametrize(("penalty", "h", "w"), SPEC, ids=[label(case[0]) for case in SPEC])
def test_values_at_known_energies(penalty, h, w):
    q = np.array([4.0, 1.0, 0.25])
    assert penalty.value(q) == pytest.approx(h, rel=1e-8)
    assert_allclose(penalty.weights(q), w, rtol=1e-6, atol=1e-8)


def test_unsmoothed_weights_of_moreau_yosida_lie_on_the_simplex():
    d = np.linspace(0.5, 2.0, M)
    for q in energies():
        my = penalties.MoreauYosida(0.3, d)
        tilde = my.unsmoothed(q)
        assert_allclose(d**2 @ tilde, 1.0, rtol=1e-10)
        assert_allclose(my.weights(q), tilde / (1 + 0.3**2 * tilde), rtol=1e-9)
    assert_allclose(penalties.MoreauYosida(0.5).unsmoothed(np.array([4.0, 1.0, 0.25])), [1, 0, 0], atol=1e-12)


@pytest.mark.parametrize("p", [1.001, 1.004, 1.05, 2.0, 100.0, np.inf])
def test_lp_weights_have_unit_norm_whatever_p(p):
    for q in [*energies(), np.array([1.0, 1.0, 1e-9]), np.array([1e200, 1e-200])]:
        w = penalties.Lp(p).weights(q)
        assert np.linalg.norm(w, p) == pytest.approx(1.0, rel=1e-9)
        assert penalties.L1().value(q) * (1 - 1e-9) <= penalties.Lp(p).value(q) <= 0.5 * q.sum() * (1 + 1e-9)


def test_lp_near_one_comes_near_l1():
    q = np.array([4.0, 3.9, 0.5])
    assert penalties.Lp(1.001).value(q) == pytest.approx(penalties.L1().value(q), rel=2e-3)
    assert_allclose(penalties.Lp(1.001).weights(q), [1, 0, 0], atol=1e-6)


def test_moreau_yosida_without_smoothing_comes_near_l1():
    q = np.array([4.0, 3.0, 0.5])
    assert penalties.MoreauYosida(1e-4, 0.7).value(q) == pytest.approx(penalties.L1(0.7).value(q), rel=1e-6)


def test_groups_of_one_are_lp_between_and_one_group_is_lp_within():
    for q in energies():
        alone, together = penalties.Group(range(M), 7, 1.5), penalties.Group([0] * M, 7, 1.5)
        assert_allclose(alone.weights(q), penalties.Lp(1.5).weights(q), rtol=1e-10)
        assert_allclose(together.weights(q), penalties.Lp(7).weights(q), rtol=1e-10)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3, 1e12])
def test_project_simplex_finds_the_nearest_point(rng, scale):
    for v in rng.normal(scale=scale, size=(DRAWS, M)):
        s = project_simplex(v)
        assert s.sum() == pytest.approx(1.0)
        assert s.min() >= 0
        others = rng.dirichlet(np.ones(M), size=50)
        assert np.all((others - s) @ (v - s) <= 1e-12 * max(1.0, scale))


def test_project_simplex_shares_equally_between_equals_however_large():
    for size in (1.0, 1e6, 1e12, 1e15, 1e200):
        s = project_simplex(size * np.array([1.0, -0.25, 1.0, -1.0, 1.0]))
        assert_allclose(s, [1 / 3, 0, 1 / 3, 0, 1 / 3], rtol=1e-9)


# -- manners --


@pytest.mark.parametrize("penalty", PENALTIES + EXTREMES, ids=label)
def test_penalties_are_parameters_and_nothing_else(penalty):
    twin = clone(penalty)
    q = np.linspace(1, 2, M)
    assert_allclose(twin.weights(q), penalty.weights(q))
    assert repr(twin) == repr(penalty)
    penalty.check(M)


@pytest.mark.parametrize(
    ("penalty", "words"),
    [
        (penalties.L1(d=0.0), "d must be positive"),
        (penalties.L1(d=[1.0, 2.0]), r"d has shape \(2,\)"),
        (penalties.L1(d=[1.0, np.nan, 2.0]), "d must be positive and finite"),
        (penalties.Lp(1.0), "p must be greater than 1.*penalty='l1'"),
        (penalties.Lp(0.5), "p must be greater than 1"),
        (penalties.Lp(np.nan), "p must be greater than 1"),
        (penalties.MoreauYosida(a=-1.0), "a must be positive"),
        (penalties.ElasticNet(c2=0.0), "c2 must be positive"),
        (penalties.ElasticNet(c1=[1.0, 1.0, 1.0]), "c1 must be one positive number"),
        (penalties.Group(["a", "b"]), "groups names 2 kernels but there are 3"),
        (penalties.Group(["a", "b", "b"], within=1.0), "within must be greater than 1"),
        (penalties.Group(["a", "b", "b"], between=0.0), "between must be greater than 1"),
        (penalties.Fixed([1.0, 2.0]), r"values has shape \(2,\)"),
        (penalties.Fixed([0.0, 0.0, 0.0]), "values must be finite and not negative"),
        (penalties.Fixed([1.0, -1.0, 0.0]), "values must be finite and not negative"),
    ],
)
def test_bad_parameters_are_refused_in_a_sentence(penalty, words):
    with pytest.raises(ValueError, match=words):
        penalty.check(3)
