"""Random problems of every loss, solved by the solver that is chosen for them: certified around Clarabel's optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from acceptance import narrow, widths
from agreement import check_against
from kernelweave import DenseGram, Problem, penalties, solve
from kernelweave.solvers.base import TINY
from reference import Inaccurate, optimum_of
from registry import CASES, factored, label, targets_for

PENALTIES = [penalties.L1(), penalties.Lp(4 / 3), penalties.ElasticNet(c1=0.4, c2=0.5), penalties.Fixed()]
SIZES = [4, 9, 17, 30, 45, 60]
MORE = [110, 120, 130]  # above TINY
AS_DRAWN = [Phase.generate]  # a seed cannot be made simpler
assert max(SIZES) <= TINY < min(MORE)


@st.composite
def problems(draws, case, penalty, sizes):
    """Draw kernels, targets and costs with what makes life hard: copies, noise, large and tiny costs and targets."""
    n, m = draws(st.sampled_from(sizes)), draws(st.integers(1, 5))
    rng = np.random.default_rng(draws(st.integers(0, 10**6)))
    X = rng.normal(size=(n, 3))
    stack = widths(X, m) if n <= TINY else narrow(X, m)
    score = X[:, 0] * X[:, 1] + draws(st.sampled_from([0.0, 3.0])) * rng.normal(size=n)
    y = targets_for(case.loss, rng, n, score, case.columns)
    if "regression" in case.loss.tasks:
        y = y * draws(st.sampled_from([0.5, 1.0, 30.0])) + draws(st.sampled_from([0.0, 10.0]))
    if draws(st.booleans()):  # copies of samples, some with other targets
        index = np.r_[np.arange(n - n // 3), np.arange(n // 3)]
        stack = stack[np.ix_(index, index)]
    if draws(st.booleans()):
        stack = stack * n / np.einsum("iik->k", stack)
    C = draws(st.sampled_from(np.geomspace(1e-2, 1e3, 11)))
    C = (1.0 + C) / n if case.loss.tasks == ("outliers",) else C
    if draws(st.booleans()):
        C = C * np.linspace(0.5, 1.5, n)
    dual_sum = draws(st.sampled_from(case.dual_sums))
    return Problem(DenseGram(stack), case.loss.bind(y, C), penalty, dual_sum)


def check(problem):
    """Solve a problem on its kernels and on features of them; one that is beyond Clarabel is drawn again."""
    try:
        best = optimum_of(problem)
    except Inaccurate:
        reject()
    features = Problem(factored(problem.gram.stack, None), problem.loss, problem.penalty, problem.dual_sum)
    for there in (problem, features):
        check_against(there, solve(there, tol=1e-4), best, 1e-4)


@pytest.mark.parametrize("penalty", PENALTIES, ids=label)
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=6, phases=AS_DRAWN)
@given(data=st.data())
def test_random_problems_agree_with_clarabel(case, penalty, data):
    check(data.draw(problems(case, penalty, SIZES)))


ABOVE = [pytest.param(case, penalty, id=f"{case}-{label(penalty)}") for case in CASES for penalty in PENALTIES]


@pytest.mark.parametrize(("case", "penalty"), ABOVE)
@settings(max_examples=2, phases=AS_DRAWN)
@given(data=st.data())
def test_random_problems_above_tiny_agree_with_clarabel(case, penalty, data):
    check(data.draw(problems(case, penalty, MORE)))
