"""What every answer must satisfy, whatever solver gave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernelweave import certify, solve
from kernelweave.arrays import to_host
from kernelweave.problem import Point


def refuses(problem, solver) -> bool:
    """Whether a solver refuses a problem, in a sentence that begins with its name."""
    try:
        solve(problem, solver)
    except ValueError as refusal:
        name = getattr(solver, "name", solver)
        return str(refusal).startswith(f"solver {name!r} ") and str(refusal).endswith(".")
    return False


def rebound(problem, y=None, C=None, **changes):
    """Return the problem with other targets or costs, and other changes."""
    bound = problem.loss
    return replace(problem, loss=bound.loss.bind(bound.y if y is None else y, bound.C if C is None else C), **changes)


def decision(problem, solution):
    return problem.gram.decision(solution.coef, solution.weights) + solution.intercept


def check_against(problem, found, best, tol):
    """Assert that a solution is certified to ``tol`` around the reference optimum ``best``."""
    bounds, slack = found.certificate, 1e-6 + 10 * best.accuracy
    where = f"{found.solver}: {bounds} {found.status}, reference {best.value}"
    assert found.converged, where
    assert bounds.gap <= tol, where
    assert bounds.lower <= best.value + slack * abs(best.value), where
    assert bounds.upper >= best.value - slack * abs(best.value), where
    again = certify(problem, Point(found.beta, found.weights))
    assert again.lower >= bounds.lower - 1e-9 * abs(bounds.lower), where
    assert primal(problem, found) == pytest.approx(bounds.upper, rel=1e-8), where


def primal(problem, found):
    """Return the primal objective of the model in a solution."""
    u = found.weights * np.sqrt(np.maximum(problem.gram.energies(found.coef), 0.0))
    f = decision(problem, found)
    price = problem.dual_sum * float(found.intercept) if problem.dual_sum else 0.0
    return problem.penalty.norm(u) + float(np.sum(to_host(problem.loss.value(f)))) + price


def assert_same_optimum(found, other, factor=1.0):
    """Assert that the brackets of two solutions overlap, the second one's times ``factor``."""
    slack = 1e-9 * abs(found.certificate.upper)
    assert factor * other.certificate.lower <= found.certificate.upper + slack
    assert found.certificate.lower <= factor * other.certificate.upper + slack
