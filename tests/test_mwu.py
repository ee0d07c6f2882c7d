"""Multiplicative weights: bounds, weights and duals against Clarabel, steps against the published counts."""

from __future__ import annotations

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from sklearn.base import clone
from sklearn.datasets import make_classification

from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.grams import CombinableGram
from kernelweave.problem import Status
from kernelweave.solvers.literature.mwu import MWU, _march, _radius
from reference import TIGHT, factor, optimum_of

HINGE, SQUARED = losses.Hinge(), losses.SquaredHinge()
each_loss = pytest.mark.parametrize("loss", [HINGE, SQUARED], ids=str)
CASES = [(100, 8, 1.0, 0), (60, 5, 10.0, 1), (80, 3, 0.1, 2), (40, 8, 1.0, 3)]
each_case = pytest.mark.parametrize(("n", "m", "C", "seed"), CASES)


def bank(n, m, seed, flip=0.1):
    """Return ``m`` Gaussian and linear kernels on random columns, each of trace ``n``, and labels."""
    X, y = make_classification(n, 10, n_informative=5, flip_y=flip, random_state=seed)
    rng = np.random.default_rng(seed)
    kernels = []
    for k in range(m):
        Z = X[:, rng.choice(10, size=rng.integers(1, 6), replace=False)]
        if k % 2:
            kernels.append(Z @ Z.T)
        else:
            far = ((Z[:, None] - Z) ** 2).sum(axis=2)
            kernels.append(np.exp(-far / (Z.shape[1] * rng.choice([0.5, 2.0, 8.0]))))
    stack = np.stack(kernels, axis=2)
    return stack * n / np.einsum("iik->k", stack), 2.0 * y - 1.0


def drawn(loss, n=60, m=5, C=1.0, seed=0, d=1.0):
    stack, y = bank(n, m, seed)
    return Problem(DenseGram(stack), loss.bind(y, C), penalties.L1(d))


known = optimum_of


def hulls(stack, y, cap=np.inf):
    """Return the least largest distance of the (reduced) hulls of the classes over the kernels, and its masses."""
    a, top = cp.Variable(y.size, nonneg=True), cp.Variable()
    masses = [cp.sum(a[y > 0]) == 0.5, cp.sum(a[y < 0]) == 0.5] + ([a <= cap] if np.isfinite(cap) else [])
    roots = [factor(stack[:, :, k]) for k in range(stack.shape[2])]
    problem = cp.Problem(cp.Minimize(top), masses + [cp.norm(L.T @ cp.multiply(y, a)) <= top for L in roots])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(top.value), np.asarray(a.value)


def run(problem, solver, accuracy, steps=2_000_000):
    """Return the state in which the bounds on v are within ``accuracy`` of each other."""
    state = solver.init(problem, None, max(2.0 * accuracy, 1e-2))
    facts = state.work.facts
    facts["aim"] = 0.0
    while not near(facts, accuracy) and facts["steps"] < steps:
        solver.step(problem, state)
    return state


def near(facts, accuracy):
    """Whether the bounds on v are within ``accuracy`` of each other, relatively."""
    return facts["lower"] >= (1.0 - accuracy) * facts["upper"]


class OnDemand(CombinableGram):
    """A stack that gives columns and nothing else, and counts them."""

    def __init__(self, stack):
        self.dense, self.columns, self.calls = DenseGram(stack), 0, 0

    @property
    def shape(self):
        return self.dense.shape

    def energies(self, beta):
        return self.dense.energies(beta)

    def decision(self, beta, weights):
        return self.dense.decision(beta, weights)

    def diagonal(self):
        return self.dense.diagonal()

    def combine(self, index, weights):
        return self.dense.combine(index, weights)

    def weighted_columns(self, delta, index, rows=None, kernels=None):
        self.columns, self.calls = self.columns + len(index), self.calls + 1
        return self.dense.weighted_columns(delta, index, rows, kernels)


# -- the optimum --


@each_case
@each_loss
def test_certified_around_the_reference_with_its_weights(n, m, C, seed, loss):
    problem = drawn(loss, n, m, C, seed)
    best = known(problem)
    found = solve(problem, MWU(), tol=1e-2)
    assert found.converged
    assert found.gap <= 1e-2
    assert found.certificate.lower <= best.value * (1 + 1e-6)
    assert found.certificate.upper >= best.value * (1 - 1e-6)
    with pytest.warns(UserWarning, match="use solver='sqp'"):
        finer = solve(problem, MWU(), tol=2e-3)
    assert finer.converged
    assert finer.certificate.lower == pytest.approx(best.value, rel=2e-3)
    assert_allclose(finer.weights, best.weights, atol=0.06)
    assert finer.weights.sum() == pytest.approx(1.0)


@each_case
@each_loss
@pytest.mark.parametrize("rule", ["searched", "annealed"])
def test_bounds_bracket_the_optimum_at_every_recorded_step(n, m, C, seed, loss, rule):
    problem = drawn(loss, n, m, C, seed)
    v = (2.0 * known(problem).value) ** -0.5
    steps, lower, upper = np.array(run(problem, MWU(rule), 0.003).trace).T
    assert len(steps) >= 2
    assert np.all(lower <= v * (1 + 1e-6))
    assert np.all(upper >= v * (1 - 1e-6))
    assert np.all(np.diff(steps) > 0)
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) <= 0)
    assert upper[-1] - lower[-1] <= 0.003 * upper[-1]


@pytest.mark.parametrize("seed", [4, 5])
def test_squared_hinge_is_the_distance_of_hulls(seed):
    problem = drawn(SQUARED, 40, 4, 5.0, seed)
    v, a = hulls(problem.gram.stack + np.eye(40)[:, :, None] / 5.0, problem.loss.y)
    state = run(problem, MWU(), 3e-4)
    point = MWU().read(problem, state)
    assert state.trace[-1][1] <= v * (1 + 1e-7)
    assert state.trace[-1][2] >= v * (1 - 1e-7)
    assert 1.0 / (2 * v**2) == pytest.approx(known(problem).value, rel=1e-6)
    assert_allclose(point.beta * problem.loss.y, a / v**2, atol=0.02 * np.max(a / v**2))


def test_eight_points():
    x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 2.5, -1.5])
    y = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, 1.0])
    apart = x[:, None] - x
    stack = np.stack([np.outer(x, x), np.exp(-(apart**2)), np.exp(-0.1 * apart**2)], axis=2)
    d = np.sqrt(np.einsum("iik->k", stack) / 8)
    problem = Problem(DenseGram(stack), SQUARED.bind(y, 1.0), penalties.L1(d))
    with pytest.warns(UserWarning):
        found = solve(problem, MWU(), tol=1e-5)
    assert 2 * found.certificate.lower == pytest.approx(3.997774, rel=1e-5)
    assert 2 * found.certificate.upper == pytest.approx(3.997774, rel=1e-5)
    assert_allclose(found.weights * d**2, [0, 1, 0], atol=1e-3)
    _, lower, upper = run(problem, MWU(), 1e-5).trace[-1]
    assert lower - 1e-6 <= 0.500139 <= upper + 1e-6
    assert upper - lower <= 1e-5


@each_loss
def test_prices_costs_scale_and_single_precision(loss):
    d, scale = np.array([1.0, 0.7, 1.4, 1.0]), np.array([0.5, 2.0, 1.0, 3.0])
    stack, y = bank(50, 4, 6)
    C = np.linspace(0.3, 4.0, 50)
    problem = Problem(DenseGram(stack.astype(np.float32), scale), loss.bind(y, C), penalties.L1(d))
    best = known(problem)
    plain = replace(problem, gram=DenseGram(stack * scale / d**2), penalty=penalties.L1())
    double = replace(problem, gram=DenseGram(stack, scale))
    for same in (problem, double, plain):
        for solver in (MWU(), MWU("annealed")):
            found = solve(same, solver, tol=1e-2)
            assert found.converged
            assert found.certificate.lower <= best.value * (1 + 1e-5)
            assert found.certificate.upper >= best.value * (1 - 1e-5)


@each_loss
def test_the_point_read_carries_its_own_products(loss):
    problem = drawn(loss, d=np.linspace(0.8, 1.2, 5))
    for solver in (MWU(), MWU("paper"), MWU(nu=0.5)):
        if solver.refuse(problem):
            continue
        point = solver.read(problem, run(problem, solver, 0.05))
        assert_allclose(point.q, problem.gram.energies(point.beta), rtol=1e-9, atol=1e-12)
        assert_allclose(point.f, problem.gram.decision(point.beta, point.weights), atol=1e-9)
        trusted, computed = certify(problem, point, trust=True), certify(problem, point)
        assert trusted.upper == pytest.approx(computed.upper, rel=1e-7)  # what the search of the scale resolves
        assert trusted.lower == pytest.approx(computed.lower, rel=1e-9)


def test_the_best_point_is_the_one_read():
    problem = drawn(SQUARED)
    state = run(problem, MWU(), 0.02)
    facts = state.work.facts
    certificate = certify(problem, MWU().read(problem, state))
    assert certificate.lower == pytest.approx(1.0 / (2 * facts["best_upper"] ** 2), rel=1e-9)
    own_lower = facts["best_upper"] * (1 - facts["width"])
    assert certificate.upper <= 1.0 / (2 * own_lower**2) * (1 + 1e-9)


def test_kernels_of_no_weight_are_left_out():
    found = solve(drawn(SQUARED, 100, 8, 1.0, 0), MWU(), tol=1e-2)
    assert 1 < np.count_nonzero(found.weights) < 8
    assert np.all(found.weights[found.weights > 0] > 1e-3)


def test_a_kernel_of_zeros_and_a_twin_do_no_harm():
    stack, y = bank(40, 3, 7)
    padded = np.concatenate([stack, np.zeros((40, 40, 1)), stack[:, :, :1]], axis=2)
    for loss in (HINGE, SQUARED):
        best = known(Problem(DenseGram(stack), loss.bind(y, 1.0), penalties.L1())).value
        found = solve(Problem(DenseGram(padded), loss.bind(y, 1.0), penalties.L1()), MWU(), tol=1e-2)
        assert found.converged
        assert found.certificate.lower <= best * (1 + 1e-6) <= found.certificate.upper * (1 + 2e-6)
        assert found.weights[3] == 0


# -- capped mass --


@pytest.mark.parametrize("C", [0.2, 1.0, 10.0])
def test_nu_and_cost_are_two_names_of_one_cap(C):
    problem = drawn(HINGE, 60, 5, C, 3)
    exact = solve(problem, tol=1e-7)
    mass = np.abs(exact.beta).sum()
    nu = mass / (60 * C)
    v, _ = hulls(problem.gram.stack, problem.loss.y, 1.0 / (60 * nu))
    found = solve(problem, MWU(nu=nu), tol=1e-2)
    assert found.converged
    assert_allclose(found.weights, exact.weights, atol=0.06)
    state = run(problem, MWU(nu=nu), 0.01)
    _, lower, upper = np.array(state.trace).T
    assert np.all(lower <= v * (1 + 1e-6))
    assert np.all(upper >= v * (1 - 1e-6))
    assert np.max(np.abs(state.work.best_point)) <= 1.0 / (60 * nu) * (1 + 1e-12)
    assert v == pytest.approx(np.sqrt(np.max(problem.gram.energies(exact.beta))) / mass, rel=1e-4)


def test_another_nu_ends_by_its_own_test():
    problem = drawn(HINGE, 60, 5, 1.0, 3)
    found = solve(problem, MWU(nu=0.3), tol=1e-2)
    assert found.status is Status.OWN_TEST
    assert found.gap > 1e-2
    v, _ = hulls(problem.gram.stack, problem.loss.y, 1.0 / (60 * 0.3))
    top = np.sqrt(np.max(problem.gram.energies(found.beta))) / np.abs(found.beta).sum()
    assert v * (1 - 1e-6) <= top <= v * 1.01


def test_the_cap_found_for_a_cost_keeps_every_dual_within_it():
    problem = drawn(HINGE, 60, 5, 0.7, 8)
    state = run(problem, MWU(), 0.002)
    assert np.all(np.abs(state.work.point) <= 0.7 * (1 + 1e-12))
    assert np.all(state.work.point * problem.loss.y >= 0)
    assert state.work.point.sum() == pytest.approx(0.0, abs=1e-10)
    assert np.isclose(np.abs(state.work.point), 0.7, rtol=1e-2).any()


def test_a_point_of_the_wrong_size_is_read_at_the_best_one():
    x = np.array([[0.0, 1.0], [1.5, -1.0], [0.1, 0.9], [0.0, 1.2]])
    stack = np.stack([x @ x.T, 30.0 * x @ x.T], axis=2)
    problem = Problem(DenseGram(stack), HINGE.bind(np.array([1.0, -1.0, 1.0, 1.0]), 100.0), penalties.L1())
    solver = MWU()
    state = solver.init(problem, None, 1e-2)
    solver.step(problem, state)
    point = solver.read(problem, state)
    assert certify(problem, point).lower == pytest.approx(0.5 / state.work.facts["best_upper"] ** 2)
    assert np.sum(problem.loss.y * point.beta) == pytest.approx(2 * problem.penalty.value(point.q))
    assert solve(problem, solver, tol=1e-2).converged


# -- the exponential --


def test_weights_are_those_of_the_matrix_exponential():
    from kernelweave.compiled.mwu import mix

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4, 5)) * np.array([0.3, 1.0, 0.7, 1.1])[:, None]
    blocks, z = [], 0.8
    for u in vectors:
        block = np.zeros((6, 6))
        block[:5, 5] = block[5, :5] = u
        blocks.append(expm(-z * block))
    trace = sum(np.trace(block) for block in blocks)
    w = np.array([2 * np.linalg.norm(block[:5, 5]) for block in blocks]) / trace
    norms = np.linalg.norm(vectors, axis=1)
    out = np.empty(4)
    mix(norms, z, out)
    assert_allclose(out, w / w.sum() / norms, rtol=1e-12)


@pytest.mark.parametrize("exponent", [1e-300, 1e-9, 1e3, 1e9, 1e300])
def test_no_exponent_is_too_large_or_too_small(exponent):
    from kernelweave.compiled.mwu import mix

    norms, out = np.array([0.0, 1e-3, 1.0, 1.0 + 1e-12, 2.0]), np.empty(5)
    mix(norms, exponent, out)
    shares = out * norms
    assert np.all(np.isfinite(out))
    assert shares.sum() == pytest.approx(1.0)
    expected = norms / norms.sum() if exponent < 1 else np.array([0, 0, 0, 0, 1.0])
    assert_allclose(shares, expected, atol=1e-8)


@each_loss
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_steps_stay_finite_when_the_bounds_meet(loss, size):
    x = np.array([-1.0, 1.0])
    stack = size * np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2)
    problem = Problem(DenseGram(stack), loss.bind(x, 1.0), penalties.L1())
    with pytest.warns(UserWarning):
        found = solve(problem, MWU(), tol=1e-9)
    mass = min(1.0 / size, 2.0)
    expected = mass - 0.5 * mass**2 * size if loss is HINGE else 0.5 / (size + 0.5)
    bounds = found.certificate
    assert bounds.upper - bounds.lower - bounds.widened <= 1e-9 * bounds.upper  # the rest is rounding
    assert found.certificate.upper == pytest.approx(expected, rel=1e-8)


# -- steps and columns --

# Printed for n=100, m=8, kernels of trace n, to a relative distance of the bounds of .1, .03 and .01; the problems
# behind the print are not known, so two of about the same radius over v (16, 26 and 30 there) stand in.
PRINTED = {1.0: (418, 2190, 12202), 10.0: (576, 2025, 11824), 100.0: (584, 2865, 17128)}
PRINTED_PAPER = [(1.0, 4, 0.0, 19032), (10.0, 0, 0.1, 181818), (100.0, 0, 0.1, 207207)]


def steps_to(problem, solver, distances):
    """Return the steps after which the bounds on v are this near each other, relatively."""
    state = solver.init(problem, None, 1e-2)
    facts, counts = state.work.facts, []
    facts["aim"] = 0.0
    for distance in distances:
        while not near(facts, distance) and facts["steps"] < 1e6:
            _march(problem, state.work, 20)
        counts.append(int(facts["steps"]))
    return counts


@pytest.mark.parametrize("C", list(PRINTED))
def test_annealed_steps_are_as_few_as_printed(C):
    problem = drawn(SQUARED, 100, 8, C, 0)
    counts = steps_to(problem, MWU("annealed"), (0.1, 0.03, 0.01))
    for count, printed in zip(counts, PRINTED[C], strict=True):
        assert printed / 2.5 < count < 2 * printed
    searched = steps_to(problem, MWU(), (0.1, 0.03, 0.01))
    assert all(few < 0.6 * many for few, many in zip(searched, counts, strict=True))


@pytest.mark.parametrize(("C", "seed", "flip", "printed"), PRINTED_PAPER)
def test_published_steps_are_as_many_as_printed(C, seed, flip, printed):
    stack, y = bank(100, 8, seed, flip)
    problem = Problem(DenseGram(stack), SQUARED.bind(y, C), penalties.L1())
    v = (2.0 * solve(problem, tol=1e-6).certificate.upper) ** -0.5
    (count,) = steps_to(problem, MWU("paper", eps=0.1 * v), [0.1])
    assert printed / 2 < count < 2 * printed
    assert count < 0.1 * 8 * (_radius(problem) / v) ** 2 * np.log(100) / 0.1**2
    assert count > 40 * steps_to(problem, MWU("annealed"), [0.1])[0]


def test_published_steps_end_at_their_own_accuracy():
    problem = drawn(SQUARED, 40, 4, 1.0, 5)
    v = (2.0 * known(problem).value) ** -0.5
    found = solve(problem, MWU("paper", eps=0.1 * v), tol=1e-2)
    assert found.status is Status.OWN_TEST
    assert 1e-2 < found.gap <= 0.25
    followed = solve(problem, MWU("paper"), tol=0.1)
    assert followed.converged


@each_loss
def test_columns_on_demand_lead_the_same_way(loss):
    stack, y = bank(60, 5, 9)
    stored = Problem(DenseGram(stack), loss.bind(y, 1.0), penalties.L1())
    asked = Problem(OnDemand(stack), loss.bind(y, 1.0), penalties.L1())
    for steps, accuracy in (("searched", 0.02), ("annealed", 0.02), ("paper", 0.1)):
        one, two = run(stored, MWU(steps), accuracy, 3000), run(asked, MWU(steps), accuracy, 3000)
        assert [row[0] for row in one.trace] == [row[0] for row in two.trace]
        assert_allclose(np.array(one.trace), np.array(two.trace), rtol=1e-6)
    found = solve(asked, MWU(), tol=2e-2)
    assert found.converged
    assert_allclose(found.weights, solve(stored, MWU(), tol=2e-2).weights, atol=1e-6)


def test_two_columns_a_step_and_a_few_numbers_per_sample_and_kernel():
    stack, y = bank(80, 6, 10)
    gram = OnDemand(stack)
    state = run(Problem(gram, SQUARED.bind(y, 1.0), penalties.L1()), MWU(), 0.05)
    assert gram.calls == pytest.approx(state.trace[-1][0], abs=2)
    assert gram.columns <= 2 * gram.calls
    assert sum(array.nbytes for array in state.work) <= 8 * (2 * 80 * 6 + 11 * 80 + 5 * 6 + 20)


def test_a_capped_vertex_is_followed_by_what_changed():
    stack, y = bank(80, 6, 10)
    gram = OnDemand(stack)
    state = run(Problem(gram, HINGE.bind(y, 1.0), penalties.L1()), MWU(), 0.02)
    held = np.count_nonzero(state.work.vertex)
    assert held > 10
    assert gram.columns < 0.75 * held * gram.calls


def test_refresh_mends_drifted_products():
    problem = drawn(SQUARED)
    state = run(problem, MWU(), 0.1)
    state.work.g[:] *= 1.1
    state.work.energy[:] *= 1.3
    MWU().refresh(problem, state)
    assert_allclose(state.work.energy, problem.gram.energies(state.work.point), rtol=1e-10)
    support = np.flatnonzero(state.work.point)
    assert_allclose(state.work.g, problem.gram.weighted_columns(state.work.point[support], support), rtol=1e-10)


@each_loss
def test_a_start_is_taken_up(loss):
    problem = drawn(loss, 40, 4, 0.2, 3)
    exact = solve(problem, tol=1e-6)
    state = MWU().init(problem, exact.beta, 1e-2)
    cold = MWU().init(problem, None, 1e-2)
    MWU().step(problem, cold)
    assert state.work.facts["upper"] <= (2 * exact.certificate.lower) ** -0.5 * (1 + 1e-6)
    assert cold.work.facts["upper"] > state.work.facts["upper"] * 1.01
    assert solve(problem, MWU(), tol=1e-2, start=exact.beta).converged
    far = np.random.default_rng(0).normal(size=40) * 50
    assert solve(problem, MWU(), tol=1e-2, start=far).converged


# -- refusals --


class Tilted(losses.Loss):
    """A loss of another shape whose dual is quadratic too."""

    def terms(self, y, C):
        return HINGE.terms(0.5 * y, C)


REFUSED = [
    (MWU(), {"penalty": penalties.Lp(2)}, r"is for penalty='l1', not Lp\(p=2\): use solver='sqp'"),
    (MWU("printed"), {}, "knows steps='searched', 'annealed', 'paper', not 'printed'"),
    (MWU(eps=0.1), {}, "takes eps only with steps='paper'"),
    (MWU("paper", eps=-1.0), {}, "takes eps only with steps='paper', and only above 0"),
    (MWU(nu=0.5), {"loss": SQUARED}, "takes nu only with loss='hinge'"),
    (MWU(nu=0.5), {"C": np.linspace(1, 2, 20)}, "takes nu only where C is the same for every sample"),
    (MWU(nu=1.1), {}, "needs nu above 0 and, with these classes, at most 0.9; got 1.1"),
    (MWU(nu=0.0), {}, "needs nu above 0"),
    (MWU(), {"y": np.ones(20)}, "needs samples of both classes"),
    (MWU(), {"loss": Tilted()}, r"needs loss='hinge' or 'squared_hinge', not Tilted\(\)"),
]


@pytest.mark.parametrize(("solver", "changes", "message"), REFUSED)
def test_refused_in_a_sentence(solver, changes, message):
    stack, _ = bank(20, 2, 0)
    y = np.where(np.arange(20) < 9, -1.0, 1.0)
    parts = {"loss": HINGE, "penalty": penalties.L1(), "y": y, "C": 1.0} | changes
    bound = parts["loss"].bind(parts["y"], parts["C"])
    with pytest.raises(ValueError, match=f"solver 'mwu' {message}") as refusal:
        solve(Problem(DenseGram(stack), bound, parts["penalty"]), solver, tol=1e-2)
    assert str(refusal.value).endswith(".")


def test_says_once_when_more_is_asked_than_it_is_good_for():
    problem = drawn(SQUARED, 30, 2)
    with pytest.warns(UserWarning, match=r"slow below a relative gap of 0.01: for tol=0.005 use") as said:
        solve(problem, MWU(), tol=5e-3)
    assert len(said) == 1
    with warnings.catch_warnings(action="error"):
        solve(problem, MWU(), tol=1e-2)


def test_knobs_and_nothing_else():
    solver = MWU("paper", eps=0.2)
    before = dict(vars(solver))
    solve(drawn(SQUARED, 30, 2), solver, tol=0.3)
    assert vars(solver) == before
    assert repr(clone(solver)) == repr(solver) == "MWU(eps=0.2, steps='paper')"


def test_the_same_twice():
    problem = drawn(HINGE)
    one, two = solve(problem, MWU(), tol=2e-2), solve(problem, MWU(), tol=2e-2)
    assert_array_equal(one.beta, two.beta)
    assert one.n_iter == two.n_iter
