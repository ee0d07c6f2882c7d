"""Random problems of the default solver on stored kernels against Clarabel: ``python tests/many.py 2000``.

Every bracket must hold Clarabel's optimum, up to Clarabel's own accuracy; where that is poor there is nothing to say.
Problems have 10 to 60 samples, 1 to 8 kernels, a tenth of them of low rank, costs from 0.01 to 1000 and sample weights
in half of them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from kernelweave import DenseGram, Problem, losses, penalties, solve
from reference import Inaccurate, optimum_of

LOSSES = (losses.Hinge(), losses.SquaredHinge(), losses.EpsilonInsensitive(0.1), losses.Squared(), losses.Huber(0.5))
PENALTIES = (
    penalties.L1(), penalties.Lp(1.1), penalties.Lp(2.0), penalties.Lp(4.0), penalties.ElasticNet(0.3),
)  # fmt: skip
NEAR = 1e-6  # relative accuracy that Clarabel is not trusted beyond


def drawn(rng: np.random.Generator) -> Problem:
    """A problem of random size, kernels, loss, penalty and costs."""
    n, m = int(rng.integers(10, 61)), int(rng.integers(1, 9))
    X = rng.normal(size=(n, 4))
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    stack = np.stack([
        X[:, :2] @ X[:, :2].T if rng.random() < 0.1 else np.exp(-(10.0 ** rng.uniform(-2, 1)) * apart) for _ in range(m)
    ], axis=2)  # fmt: skip
    loss = LOSSES[int(rng.integers(len(LOSSES)))]
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n)
    y = score if "regression" in loss.tasks else np.where(score > np.median(score), 1.0, -1.0)
    costs = 10.0 ** rng.uniform(-2, 3) * (rng.uniform(0.5, 2.0, size=n) if rng.random() < 0.5 else np.ones(n))
    penalty = PENALTIES[int(rng.integers(len(PENALTIES)))]
    return Problem(DenseGram(stack, rng.uniform(0.5, 2.0, size=m)), loss.bind(y, costs), penalty)


def main() -> None:
    count, limit = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else np.inf
    tried = violated = loose = unknown = 0
    for seed in range(count):
        if time.process_time() > limit:
            break
        problem = drawn(np.random.default_rng(seed))
        try:
            best = optimum_of(problem).value
        except Inaccurate:
            unknown += 1
            continue
        found = solve(problem, tol=1e-3)
        tried += 1
        loose += not found.converged
        lower, upper, room = found.certificate.lower, found.certificate.upper, NEAR * abs(best)
        if not lower - room <= best <= upper + room:
            violated += 1
            print(f"seed {seed}: {lower:.9g} <= {best:.9g} <= {upper:.9g} is wrong: {problem.loss}, {problem.penalty}")
    print(f"{tried} problems, {violated} violated, {loose} without the gap; {unknown} that Clarabel left open")


if __name__ == "__main__":
    main()
