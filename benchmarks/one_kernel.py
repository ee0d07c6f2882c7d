"""One Gaussian kernel against LIBSVM on the same stored matrix, both judged to the same certified gap.

LIBSVM is given the loosest of three tolerances at which its answer certifies a relative gap of 1e-3. Seconds are CPU
seconds of one thread, the best of three below 2 s; kernels are computed beforehand.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.svm import SVC

from common import Stack, options, rows_of, save, standardised, table, timed
from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.problem import Point

TOL = 1e-3
TOLERANCES = (1e-1, 1e-2, 1e-3)


def libsvm(K: np.ndarray, y: np.ndarray, C: float, tol: float) -> np.ndarray:
    """The duals that LIBSVM finds."""
    machine = SVC(C=C, kernel="precomputed", tol=tol, cache_size=1000).fit(K, y)
    beta = np.zeros(len(y))
    beta[machine.support_] = machine.dual_coef_[0]
    return beta


def kernel_of(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian kernel of usual width on n rows drawn with seed 0, and the labels."""
    X, y = rows_of(name)
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    X, _ = standardised(X[rows], X[:1])
    y = np.where(y[rows] == y.max(), 1.0, -1.0)
    squares = (X**2).sum(axis=1)
    return np.exp(-np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0) / X.shape[1]), y


def main() -> None:
    args = options(__doc__).parse_args()
    rows = []
    for name in ("magic", "spambase"):
        for n in (500,) if args.fast else (2000, 5000 if name == "magic" else 4000):
            K, y = kernel_of(name, n)
            stack = Stack(K[:, :, None], "samples")
            for C in (1.0, 10.0):
                problem = Problem(DenseGram(stack.array), losses.Hinge().bind(y, C), penalties.Fixed(np.ones(1)))
                solve(problem, tol=TOL)  # compiles
                ours, watch = timed(partial(solve, problem, tol=TOL))
                for tolerance in TOLERANCES:
                    beta, rival = timed(partial(libsvm, K, y, C, tolerance))
                    gap = certify(problem, Point(beta, np.ones(1))).gap
                    if gap <= TOL:
                        break
                rows.append({
                    "data": name, "n": n, "C": C, "ours": watch.cpu, "gap": ours.gap, "LIBSVM": rival.cpu,
                    "its tolerance": tolerance, "its gap": gap, "ratio": watch.cpu / rival.cpu,
                })  # fmt: skip
    names = list(rows[0])
    print(table(names, [[f"{v:.3g}" if isinstance(v, float) else v for v in row.values()] for row in rows]))
    print(f"written to {save('one_kernel_fast' if args.fast else 'one_kernel', {'tol': TOL, 'rows': rows})}")


if __name__ == "__main__":
    main()
