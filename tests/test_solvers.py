"""Laws of solvers on stored kernels: random problems, invariances, the loop. What they take is in acceptance.csv."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

from acceptance import pairs, takers, widths
from agreement import assert_same_optimum, check_against, decision, primal, rebound
from kernelweave import DenseGram, Problem, losses, penalties, solve, solvers
from kernelweave.grams import GramStack, LowRankGram
from kernelweave.problem import Point, Status
from kernelweave.solvers import base, interior
from reference import Inaccurate, optimum_of
from registry import PENALTIES, QUADRATIC, SOLVERS, label, sized, usual

each_solver = pytest.mark.parametrize("solver", SOLVERS)
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=label)
each_loss = pytest.mark.parametrize("loss", QUADRATIC, ids=label)
EVERYDAY = [penalties.L1(), penalties.Lp(4 / 3), penalties.Lp(2.0)]
PRICED = penalties.ElasticNet(c1=0.4, c2=0.5)  # as the file has it
each_everyday = pytest.mark.parametrize("penalty", EVERYDAY, ids=label)
each_pair = pytest.mark.parametrize(("solver", "penalty"), pairs(SOLVERS, PENALTIES), ids=label)
each_everyday_pair = pytest.mark.parametrize(("solver", "penalty"), pairs(SOLVERS, EVERYDAY), ids=label)
each_sparse = pytest.mark.parametrize("solver", takers(SOLVERS, penalty=label(penalties.L1())))


def draw(n, seed, noise=0.7):
    """Return points and labels that no kernel separates easily."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def small(penalty, loss=None, C=2.0, n=30, m=5, seed=0):
    X, y = draw(n, seed)
    return Problem(DenseGram(widths(X, m)), (loss or losses.Hinge()).bind(y, C), sized(penalty, m))


def optimum(problem):
    """Return Clarabel's optimum; a drawn problem that is beyond it is drawn again."""
    try:
        return optimum_of(problem)
    except Inaccurate:
        reject()


# -- what is refused --


def test_unknown_solver_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="solver 'nonsense' is not known: choose one of auto, ") as refusal:
        solve(small(penalties.L1()), "nonsense")
    assert all(name in str(refusal.value) for name in SOLVERS)


@each_solver
def test_a_stack_without_the_needed_capability_is_refused(solver):
    problem = small(usual(solver))
    offers = solvers._NAMES[solver].needs[0].offers

    class Bare(GramStack):
        shape = problem.gram.shape
        energies, decision, diagonal = problem.gram.energies, problem.gram.decision, problem.gram.diagonal

    with pytest.raises(ValueError, match=f"solver '{solver}' works on .*{offers}.*, which Bare does not have"):
        solve(replace(problem, gram=Bare()), solver)


@each_solver
def test_solvers_are_knobs_and_nothing_else(solver):
    one = solvers._NAMES[solver]()
    before = dict(vars(one))
    assert solve(small(usual(solver)), one).converged
    assert vars(one) == before
    assert repr(clone(one)) == repr(one)


# -- larger problems: where the default solver works in rounds, on some of the samples --


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(1.1), penalties.Lp(2), penalties.ElasticNet(0.1)])
@pytest.mark.parametrize("C", [1e-3, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("n", [150, 450, 1100])
def test_rounds_agree_with_alternation(n, C, penalty):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    stack = np.stack([X @ X.T / 4, *(np.exp(-g * distances) for g in (0.01, 0.1, 1.0))], axis=2)
    problem = Problem(DenseGram(stack), losses.Hinge().bind(y, C), penalty)
    found, other = solve(problem, "sqp"), solve(problem, "alternating", tol=1e-2)
    assert found.converged
    assert found.certificate.lower <= other.certificate.upper * (1 + 1e-9)
    assert other.certificate.lower <= found.certificate.upper * (1 + 1e-9)


@pytest.mark.parametrize("loss", QUADRATIC, ids=label)
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(1.1), penalties.Lp(2)], ids=label)
def test_rounds_find_the_optimum_of_small_problems(penalty, loss, monkeypatch, set_sqp):
    monkeypatch.setattr("kernelweave.solvers.base.TINY", 0)
    set_sqp(first=12, few=8, many=3)
    for C in (1e-3, 1e-2, 0.1, 1.0, 30.0):
        problem, other = small(penalty, loss, C=C), "smo" if penalty.smooth else "proximal"
        assert_same_optimum(solve(problem, "sqp", tol=1e-5), solve(problem, other, tol=1e-5))


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2)], ids=label)
def test_rounds_that_hold_no_rows_find_the_same(penalty, monkeypatch, set_sqp):
    problem = small(penalty, n=200)
    monkeypatch.setattr("kernelweave.solvers.base.TINY", 0)
    whole = solve(problem, "sqp", tol=1e-4)
    set_sqp(first=40, share=0.0, least=2000)
    assert_same_optimum(solve(problem, "sqp", tol=1e-4), whole)


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2)], ids=label)
def test_duals_and_weights_of_a_neighbour_save_work(penalty):
    problem = small(penalty, n=700, C=1.0)
    last = solve(problem)
    near = rebound(problem, C=1.3)
    warm, cold = solve(near, start=Point(1.3 * last.beta, last.weights)), solve(near)
    assert warm.converged
    assert warm.n_iter < cold.n_iter
    assert_same_optimum(warm, cold)


@each_solver
def test_a_loss_without_a_quadratic_dual_is_refused(solver):
    problem = small(usual(solver), losses.Logistic())
    with pytest.raises(ValueError, match=r"does not take the dual of Logistic\(\): use solver='auto'"):
        solve(problem, solver)


# -- random problems --


@st.composite
def rough_problems(draws):
    """Draw points, labels and costs with what makes life hard: copies, imbalance, large and tiny C."""
    n, m = draws(st.sampled_from([4, 9, 17, 30, 45, 60, 80])), draws(st.integers(1, 8))
    X, y = draw(n, draws(st.integers(0, 10**6)), draws(st.sampled_from([0.0, 0.7, 3.0])))
    stack = widths(X, m)
    if draws(st.booleans()):  # badly unbalanced
        y = -np.ones(n)
        y[: draws(st.integers(1, 2))] = 1.0
    if draws(st.booleans()):  # duplicate samples, some with the other label
        index = np.r_[np.arange(n - n // 3), np.arange(n // 3)]
        stack = stack[np.ix_(index, index)]
    if m > 1 and draws(st.booleans()):  # duplicate kernels
        stack[:, :, m - 1] = stack[:, :, 0]
    if draws(st.booleans()):
        stack = stack * n / np.einsum("iik->k", stack)
    C = draws(st.sampled_from(np.geomspace(1e-2, 1e3, 11)))
    if draws(st.booleans()):
        C = C * np.linspace(0.2, 3.0, n)
    return stack, y, C


@each_penalty
@each_loss
@settings(max_examples=4)
@given(rough=rough_problems())
def test_random_problems_agree_with_clarabel(penalty, loss, rough):
    stack, y, C = rough
    problem = Problem(DenseGram(stack), loss.bind(y, C), sized(penalty, stack.shape[2]))
    best = optimum(problem)
    for solver in takers(SOLVERS, loss=label(loss), penalty=label(penalty)):
        check_against(problem, solve(problem, solver, tol=1e-4), best, 1e-4)


@each_everyday
@settings(max_examples=20)
@given(rough=rough_problems())
def test_random_problems_agree_with_clarabel_on_everyday_penalties(penalty, rough):
    stack, y, C = rough
    problem = Problem(DenseGram(stack), losses.Hinge().bind(y, C), penalty)
    best = optimum(problem)
    for solver in takers(SOLVERS, penalty=label(penalty)):
        check_against(problem, solve(problem, solver, tol=1e-4), best, 1e-4)


@each_everyday_pair
def test_single_precision_kernels_are_enough(solver, penalty):
    problem = small(penalty)
    rounded = replace(problem, gram=DenseGram(problem.gram.stack.astype(np.float32)))
    found = solve(rounded, solver, tol=1e-4)
    assert found.converged
    assert found.certificate.upper == pytest.approx(solve(problem, tol=1e-6).certificate.upper, rel=2e-4)


# -- invariances --


@each_everyday_pair
def test_permuting_samples_and_kernels_permutes_the_answer(solver, penalty, rng):
    problem = small(penalty)
    n, m = problem.gram.shape
    rows, columns = rng.permutation(n), rng.permutation(m)
    stack = problem.gram.stack[np.ix_(rows, rows, columns)]
    moved = replace(problem, gram=DenseGram(stack), loss=problem.loss.take(rows))
    found, other = solve(problem, solver, tol=1e-6), solve(moved, solver, tol=1e-6)
    assert_same_optimum(found, other)
    assert_allclose(other.weights, found.weights[columns], atol=3e-3)
    assert_allclose(decision(moved, other), decision(problem, found)[rows], atol=5e-3)


@each_everyday_pair
def test_larger_kernels_and_smaller_cost_leave_the_decision(solver, penalty):
    problem = small(penalty, C=4.0)
    scaled = replace(problem, gram=DenseGram(4.0 * problem.gram.stack), loss=problem.loss.times(0.25))
    tol = 1e-5 if solver == "skm" else 1e-6  # the 2004 algorithm takes half a minute to the finer one
    found, other = solve(problem, solver, tol=tol), solve(scaled, solver, tol=tol)
    assert_allclose(decision(scaled, other), decision(problem, found), atol=5e-3)
    assert_same_optimum(found, other, 4.0)


@each_everyday_pair
def test_scale_of_the_stack_is_as_good_as_scaled_kernels(solver, penalty):
    problem = small(penalty)
    scale = np.linspace(0.5, 2.0, 5)
    lazy = replace(problem, gram=DenseGram(problem.gram.stack, scale))
    eager = replace(problem, gram=DenseGram(problem.gram.stack * scale))
    assert_same_optimum(solve(lazy, solver, tol=1e-5), solve(eager, solver, tol=1e-5))


@each_everyday_pair
def test_a_constant_added_to_a_kernel_changes_nothing(solver, penalty):
    problem = small(penalty)
    raised = replace(problem, gram=DenseGram(problem.gram.stack + np.array([0.0, 3.0, 0.0, 1.0, 0.0])))
    assert_same_optimum(solve(problem, solver, tol=1e-5), solve(raised, solver, tol=1e-5))


@each_everyday_pair
@each_loss
def test_doubling_a_sample_is_doubling_its_cost(solver, penalty, loss):
    problem = small(penalty, loss)
    index = np.r_[np.arange(30), 4, 7]
    stack = problem.gram.stack[np.ix_(index, index)]
    longer = replace(problem, gram=DenseGram(stack), loss=problem.loss.take(index))
    dearer = rebound(problem, C=np.where(np.isin(np.arange(30), [4, 7]), 4.0, 2.0))
    assert_same_optimum(solve(longer, solver, tol=1e-5), solve(dearer, solver, tol=1e-5))


@each_sparse
def test_duplicate_kernels_change_nothing_for_l1(solver):
    problem = small(penalties.L1())
    doubled = replace(problem, gram=DenseGram(np.repeat(problem.gram.stack, 2, axis=2)))
    assert_same_optimum(solve(problem, solver, tol=1e-5), solve(doubled, solver, tol=1e-5))


@each_sparse
def test_l1_weights_are_sparse(solver):
    found = solve(small(penalties.L1(), m=8), solver, tol=1e-5)
    assert np.count_nonzero(found.weights > 1e-3) < 8
    if solver != "alternating":  # whose weights only shrink towards zero
        assert np.count_nonzero(found.weights) < 8
    assert found.weights.sum() <= 1 + 1e-9
    expected = optimum(small(penalties.L1(), m=8)).weights
    assert_allclose(found.weights, expected, atol=0.03)
    assert set(np.flatnonzero(expected > 0.05)) <= set(np.flatnonzero(found.weights))


@each_pair
def test_one_kernel(solver, penalty):
    found = solve(small(penalty, m=1), solver, tol=1e-5)
    assert found.converged
    assert found.certificate.upper == pytest.approx(optimum(small(penalty, m=1)).value, rel=2e-5)


@each_everyday_pair
def test_a_kernel_of_zeros_gets_no_say(solver, penalty):
    problem = small(penalty, m=3)
    padded = replace(problem, gram=DenseGram(np.insert(problem.gram.stack, 1, 0.0, axis=2)))
    assert_same_optimum(solve(problem, solver, tol=1e-5), solve(padded, solver, tol=1e-5))


# -- the loop --


@each_everyday_pair
def test_warm_start_from_the_solution(solver, penalty):
    problem = small(penalty)
    found = solve(problem, solver, tol=1e-5)
    again = solve(problem, solver, tol=1e-3, start=found.beta)
    assert again.converged
    if penalty.smooth:
        assert len(again.history.iteration) == 1
    cold = solve(problem, solver, tol=1e-3)
    assert len(again.history.iteration) <= len(cold.history.iteration) + 1


@each_solver
def test_an_infeasible_start_is_mended(solver, rng):
    problem = small(usual(solver))
    found = solve(problem, solver, start=rng.normal(scale=100.0, size=30))
    assert found.converged


@each_everyday_pair
def test_one_step_returns_an_honest_wide_certificate(solver, penalty):
    problem = small(penalty, C=100.0, n=60)
    found = solve(problem, solver, tol=1e-12, max_iter=1)
    best = solve(problem, tol=1e-7).certificate
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 1
    assert not found.converged
    assert found.gap > 1e-12
    assert found.certificate.lower <= best.upper
    assert found.certificate.upper >= best.lower
    assert primal(problem, found) == pytest.approx(found.certificate.upper, rel=1e-8)


@each_everyday_pair
def test_bounds_in_the_history_only_improve(solver, penalty):
    found = solve(small(penalty, C=20.0), solver, tol=1e-4)
    history = found.history
    slack = 1e-7 * abs(found.certificate.upper)
    assert np.all(np.diff(history.lower) >= -slack)
    assert np.all(np.diff(history.upper) <= slack)
    assert np.all(np.diff(history.iteration) > 0)
    assert np.all(np.diff(history.seconds) >= 0)
    assert history.gap[-1] <= 1e-4 * (1 + 1e-6)
    assert len(history.kernels) == len(history.gap)


@each_everyday_pair
def test_callbacks_see_every_judgement(solver, penalty):
    seen = []
    found = solve(small(penalty, C=20.0), solver, tol=1e-4, callbacks=[lambda *row: seen.append(row)])
    assert [iteration for iteration, _, _ in seen] == found.history.iteration
    assert [certificate.upper for _, certificate, _ in seen] == found.history.upper
    assert seen[0][2].beta.shape == (30,)


@each_everyday_pair
def test_a_callback_may_stop_the_fit(solver, penalty):
    problem = small(penalty, C=20.0)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        found = solve(problem, solver, tol=1e-16, callbacks=[lambda *_: True])
    assert found.status is Status.INTERRUPTED
    assert len(found.history.iteration) == 1


@each_everyday_pair
def test_interruption_returns_the_best_certified_point_with_a_warning(solver, penalty):
    def interrupt(iteration, certificate, point):
        raise KeyboardInterrupt

    problem = small(penalty, C=20.0)
    with pytest.warns(RuntimeWarning, match="interrupted: this is the best certified point so far"):
        found = solve(problem, solver, tol=1e-16, callbacks=[interrupt])
    best = solve(problem, tol=1e-7).certificate
    assert found.status is Status.INTERRUPTED
    assert found.certificate.lower <= best.upper * (1 + 1e-9)
    assert found.certificate.upper >= best.lower * (1 - 1e-9)


@each_solver
def test_interruption_of_the_first_step_returns_a_certified_point(solver, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    problem = small(usual(solver), C=20.0)
    best = solve(problem, solver).certificate
    monkeypatch.setattr(solvers._NAMES[solver], "step", interrupt)
    with pytest.warns(RuntimeWarning, match="interrupted: this is the best certified point so far"):
        found = solve(problem, solver, tol=1e-16)
    assert found.status is Status.INTERRUPTED
    assert found.certificate.lower <= best.upper and best.lower <= found.certificate.upper < np.inf


@each_solver
def test_interruption_at_the_end_is_not_lost(solver):
    """Whoever solves one problem after another would go on otherwise."""

    def interrupt(iteration, certificate, point):
        if certificate.gap <= 1e-3:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted"):
        found = solve(small(usual(solver), C=20.0), solver, callbacks=[interrupt])
    assert found.gap <= 1e-3
    assert found.status is Status.INTERRUPTED


def test_an_answer_of_true_only_stops():
    found = solve(small(penalties.Lp(2)), callbacks=[lambda *_: 1, lambda *_: "yes"])
    assert found.converged


@each_solver
def test_progress_bar_shows_the_gap(solver, capsys):
    solve(small(usual(solver)), solver, progress=True)
    assert "gap" in capsys.readouterr().err


@pytest.mark.parametrize("solver", takers(SOLVERS, penalty=label(PRICED)))
@each_loss
def test_no_kernel_worth_its_price_is_the_zero_model_with_no_gap(solver, loss):
    problem = small(penalties.ElasticNet(c1=1e4, c2=1.0), loss)
    found = solve(problem, solver, tol=1e-9)
    assert found.converged
    assert not found.weights.any()
    assert np.ptp(decision(problem, found)) == 0
    biases = np.linspace(-1.0, 1.0, 2001)[:, None]
    constant = np.sum(loss.value(biases, problem.loss.y, problem.loss.C), axis=1)
    assert found.certificate.upper <= constant.min() * (1 + 1e-9)


@each_everyday_pair
def test_two_samples(solver, penalty):
    X = np.array([[-1.0, 0.0, 0.0], [1.0, 0.5, 0.0]])
    for C in (0.01, 1.0, 1000.0):
        problem = Problem(DenseGram(widths(X, 3)), losses.Hinge().bind(np.array([-1.0, 1.0]), C), penalty)
        found = solve(problem, solver, tol=1e-5)
        assert found.certificate.upper == pytest.approx(optimum(problem).value, rel=2e-5)


@pytest.mark.parametrize("first", [False, True], ids=["samples first", "kernels first"])
def test_rows_in_single_precision_hold_nothing_that_it_has_no_full_digits_of(first):
    from kernelweave.compiled.working_set import fill_row

    stack = np.array([1.0, 1e-30, 1e-39, -1e-42, -1e-37, np.nan])[None, :, None] * np.ones((6, 6, 2))
    stack = np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2) if first else stack
    every = np.arange(6)
    for kernels in (np.array([0, 1]), np.array([1])):
        for dtype, expected in ((np.float32, [1.0, 1e-30, 0.0, 0.0, -1e-37, np.nan]), (np.float64, stack[0, :, 0])):
            row = np.full((6, kernels.size), 7.0, dtype=dtype)
            fill_row(stack, every, kernels, 0, 0, row)
            np.testing.assert_array_equal(row, np.array(expected, dtype=dtype)[:, None] * np.ones(kernels.size, dtype))


@pytest.mark.parametrize(("n", "m"), [(1200, 3), (700, 70)])
def test_the_last_round_leaves_the_products_that_the_judge_asks_for(n, m, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n))
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    gram = DenseGram(np.stack([np.exp(-width * apart) for width in np.logspace(-2, 1, m)], axis=2))
    read, judged = [], []
    columns, judge = DenseGram.weighted_columns, base.certify

    def counted(self, *args):
        read.append(args)
        return columns(self, *args)

    def watched(problem, point, trust=False, **how):
        before = len(read)
        certificate = judge(problem, point, trust=trust, **how)
        judged.append((trust, len(read) - before))
        return certificate

    monkeypatch.setattr(DenseGram, "weighted_columns", counted)
    monkeypatch.setattr(base, "certify", watched)
    found = solve(Problem(gram, losses.Hinge().bind(y, 10.0), penalties.Lp(2)), "sqp", tol=1e-3)
    assert found.gap <= 1e-3 and len(found.history.gap) > 2
    assert (False, 0) in judged and (False, 1) not in judged  # confirmed from the kernels, which were not read again


def _two_classes(n=300, widths=(0.1, 1.0)):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    y = np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n))
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.stack([np.exp(-width * apart) for width in widths], axis=2), y


def test_rows_left_at_other_fixed_weights_are_not_those_of_a_problem():
    stack, y = _two_classes(widths=(0.5,))
    gram, loss = DenseGram(stack), losses.Hinge().bind(y, 10.0)
    solve(Problem(gram, loss, penalties.Fixed([1.0])), "sqp", tol=1e-4)
    again = solve(Problem(gram, loss, penalties.Fixed([1.04])), "sqp", tol=1e-4)
    fresh = solve(Problem(DenseGram(stack), loss, penalties.Fixed([1.04])), "sqp", tol=1e-4)
    assert again.n_iter == fresh.n_iter and again.gap == pytest.approx(fresh.gap)


def test_what_another_thread_took_first_is_not_there():
    class Taken(list):
        def __len__(self):
            return 1  # when it was asked

    stack, y = _two_classes(60)
    gram = DenseGram(stack)
    gram.left = Taken()
    assert solve(Problem(gram, losses.Hinge().bind(y, 1.0), penalties.L1()), "sqp").converged


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)], ids=str)
def test_a_start_whose_weights_say_nothing_is_no_answer(penalty):
    stack, y = _two_classes()
    problem = Problem(DenseGram(stack), losses.Hinge().bind(y, 1.0), penalty)
    beta = solve(problem, tol=1e-6).beta
    assert solve(problem, "sqp", start=Point(beta, np.full(2, np.nan))).converged
    with pytest.raises(ValueError, match=r"weights of shape \(3,\), and there are 2 kernels"):
        solve(problem, start=Point(beta, np.ones(3)))


@pytest.mark.parametrize(
    ("loss", "penalty", "name"),
    [
        (losses.Hinge(), penalties.L1(), "sqp"),
        (losses.Hinge(), penalties.SquaredLp(2.0), "features"),
        (losses.EpsilonInsensitive(0.1), penalties.L1(), "features"),
        (losses.EpsilonInsensitive(0.1), penalties.SquaredLp(2.0), "features"),
    ],
    ids=str,
)
def test_which_paths_stay_with_working_sets_where_costs_are_high(loss, penalty, name):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(350, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=350)
    y = np.sign(y) if isinstance(loss, losses.Hinge) else y
    gram = DenseGram(np.stack([V @ V.T for V in (X[:, [0]], X[:, [1]], X[:, :2], np.ones((350, 1)))], axis=2))
    cost = 1500.0 * base.unit_of(Problem(gram, loss.bind(y, 1.0), penalty)) / float(np.mean(gram.diagonal()))
    lower, problem = (Problem(gram, loss.bind(y, C), penalty) for C in (cost / 3, cost))
    last = solve(lower, "features", tol=1e-4)
    found = solve(problem, tol=1e-4, start=Point(1.5 * last.beta, last.weights))
    assert found.converged and found.solver == name


@pytest.mark.parametrize("cost", [900.0, 1900.0])
def test_rounds_in_single_precision_do_not_stand_still_at_high_costs(cost):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(350, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=350)
    gram = DenseGram(np.stack([V @ V.T for V in (X[:, [0]], X[:, [1]], X[:, :2], np.ones((350, 1)))], axis=2))
    loss = losses.EpsilonInsensitive(0.1)
    unit = base.unit_of(Problem(gram, loss.bind(y, 1.0), penalties.L1())) / float(np.mean(gram.diagonal()))
    found = solve(Problem(gram, loss.bind(y, cost * unit), penalties.L1()), "sqp", tol=1e-3)
    assert found.gap <= 1e-3


@pytest.mark.parametrize("seed", [1, 22])
@pytest.mark.parametrize("penalty", [penalties.Lp(2), penalties.L1()], ids=str)
def test_rounds_in_which_no_dual_gives_way_are_no_end(seed, penalty):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(40, 6))
    y = np.sign(V[:, 0] + V[:, 3] + rng.normal(size=40))  # as many of each class
    kernels = np.stack([part @ part.T for part in np.split(V, 3, axis=1)], axis=2)
    found = solve(Problem(DenseGram(kernels), losses.Hinge().bind(y), penalty), "lagrangian", tol=1e-3)
    assert found.converged


@pytest.mark.parametrize("seed", [288, 1125, 2970])
def test_more_free_duals_than_the_rank_tells_apart_do_not_stop_newton(seed):
    """A step on them is long where the kernel is flat; cut off at the bounds it may not lower the objective at all."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 3))
    gate = 1.0 / (1.0 + np.exp(-3.0 * X[:, :1]))
    y = np.where(rng.random(30) > 0.5, 1.0, -1.0) if seed % 2 else np.sign(X[:, 0] + 0.5 * rng.normal(size=30))
    Z = X * gate if seed % 4 < 2 else X
    problem = Problem(DenseGram((Z @ Z.T)[:, :, None]), losses.Hinge().bind(y, 100.0), penalties.Fixed())
    assert solve(problem, "sqp", tol=1e-8, max_iter=30).gap <= 1e-8


@pytest.mark.parametrize(("size", "C"), [(10.0, 100.0), (1000.0, 1.0), (1000.0, 100.0)])
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)])
def test_features_that_few_samples_have_do_not_stop_the_interior_point(size, C, penalty):
    """The answer on some of the samples fits them too well, and is far from any point of all samples."""
    rng, (n, D) = np.random.default_rng(0), (40_000, 40)
    V = 1e-3 * rng.normal(size=(n, D))
    V[rng.choice(n, 5 * D, replace=False)] += size * np.repeat(np.eye(D), 5, axis=0)
    V[:, 0] = rng.normal(size=n)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-3.0 * V[:, 0])), 1.0, -1.0)
    problem = Problem(LowRankGram(V, [D // 4] * 4), losses.Hinge().bind(y, C), penalty)
    found = solve(problem, "interior", tol=1e-4)
    assert found.converged and found.n_iter <= 60


def test_an_interior_point_whose_products_are_zero_has_nothing_left_to_aim_at():
    rng = np.random.default_rng(0)
    gram = LowRankGram(rng.normal(size=(29, 4)), [4])
    problem = Problem(gram, losses.Huber().bind(rng.normal(size=29), 0.1), penalties.Fixed())
    state = interior.begin(problem, interior.mixing_of(problem.penalty, 1), None, 1e-6)
    for side in state.sides:
        side.multiplier = 0.0 * side.multiplier
    beta = state.beta
    interior._Step(gram, state).take()
    assert state.stuck >= interior.SETTINGS.patience
    np.testing.assert_array_equal(state.beta, beta)
