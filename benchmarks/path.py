"""Ten values of C, each started from the last, beside fits from nothing: what a path costs, and what it proves.

Two classes in ten columns, a fifth of the labels wrong, as in particle physics: most samples are support vectors. Ten
Gaussian kernels, stored beforehand. Seconds are CPU seconds of one thread, the best of three below 2 s.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from common import options, save, table, timed
from kernelweave import DenseGram, Problem, losses, penalties, solve
from kernelweave.problem import Point

TOL = 1e-3
COSTS = np.logspace(-1, 2, 10)


def problem_of(n: int, penalty, rng) -> Problem:
    """Kernels on n noisy samples, with C = 1."""
    X = rng.normal(size=(n, 10))
    y = np.sign(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=n))
    y[rng.random(n) < 0.2] *= -1.0
    squares = (X**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0) / 10
    stack = np.stack([np.exp(-gamma * apart) for gamma in np.logspace(-2, 1, 10)], axis=2)
    return Problem(DenseGram(stack), losses.Hinge().bind(y), penalty)


def at(problem: Problem, C: float) -> Problem:
    return Problem(problem.gram, problem.loss.times(C), problem.penalty)


def walk(problem: Problem, warm: bool) -> list:
    """Solutions for all costs, from the smallest up; warm as `kw.path` does it."""
    found: list = []
    for C in COSTS:
        start = Point(found[-1].beta, found[-1].weights) if warm and found else None
        found.append(solve(at(problem, C), tol=TOL, start=start))
    return found


def main() -> None:
    args = options(__doc__).parse_args()
    rows = []
    for n in (300, 600) if args.fast else (1000, 2000):
        for name, penalty in (("l1", penalties.L1()), ("l2", penalties.Lp(2))):
            problem = problem_of(n, penalty, np.random.default_rng(0))
            solve(at(problem, 1.0), tol=TOL)  # compiles
            warm, warm_watch = timed(partial(walk, problem, True))
            cold, cold_watch = timed(partial(walk, problem, False))
            _, middle = timed(partial(solve, at(problem, float(np.sqrt(COSTS[4] * COSTS[5]))), tol=TOL))
            agree = all(
                a.certificate.lower <= b.certificate.upper and b.certificate.lower <= a.certificate.upper
                for a, b in zip(warm, cold, strict=True)
            )
            rows.append({
                "n": n, "penalty": name, "warm": warm_watch.cpu, "cold": cold_watch.cpu, "middle": middle.cpu,
                "in_middle_fits": warm_watch.cpu / middle.cpu, "worst_gap": max(found.gap for found in warm),
                "brackets_agree": agree, "steps_warm": sum(found.n_iter for found in warm),
                "steps_cold": sum(found.n_iter for found in cold),
            })  # fmt: skip
    names = list(rows[0])
    shown = [[f"{row[key]:.3g}" if isinstance(row[key], float) else row[key] for key in names] for row in rows]
    print(table(names, shown))
    print(f"written to {save('path_fast' if args.fast else 'path', {'costs': COSTS.tolist(), 'rows': rows})}")


if __name__ == "__main__":
    main()
