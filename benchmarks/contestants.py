"""The rivals that solve the same problem as we do. Each is a plain function (stack, y, C, p, race) -> note.

Stacks come with kernels first, the layout that suits a rival which mixes kernels and calls an SVM. A rival
shows its points to the race, which judges them off the clock and says when to stop.
"""

from __future__ import annotations

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.linalg.lapack import dpstrf
from scipy.optimize import linprog
from sklearn.svm import SVC

from common import Race, Stack, Stopwatch, unit


def svm(K: np.ndarray, y: np.ndarray, C: float, tol: float = 1e-3) -> np.ndarray:
    """LIBSVM on one kernel: the signed duals (n,)."""
    model = SVC(kernel="precomputed", C=C, tol=tol, cache_size=1000).fit(K, y)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    return beta


def alternation(stack: Stack, y, C: float, p: float, race: Race) -> str:
    """LIBSVM on the mixed kernel, then the closed-form weights of the lp group lasso, in turn."""
    weights, tol = unit(np.ones(len(stack.array)), p), 1e-3
    with race.watch:
        while True:
            beta = svm(stack.mix(weights), y, C, tol)
            if race.over((beta, weights)):
                return f"{race.rounds} SVMs"
            q = np.maximum(stack.energies(beta), 0.0)
            tol = sharper(tol, weights, q, race)
            weights = unit((weights**2 * q) ** (1 / (p + 1)), p)


def sharper(tol: float, weights: np.ndarray, q: np.ndarray, race: Race) -> float:
    """A finer LIBSVM tolerance once the weights are no longer what keeps the gap open."""
    judge = race.judge
    mixing = judge.h(q) - 0.5 * weights @ q
    return max(tol / 3, 1e-8) if mixing < 0.3 * (judge.upper - judge.lower) else tol


def silp(stack: Stack, y, C: float, p: float, race: Race) -> str:
    """Cutting planes in the weights: every SVM adds one plane, HiGHS finds the next weights; p = 1 only."""
    m, tol = len(stack.array), 1e-3
    weights, betas, planes, values = np.full(m, 1 / m), [], [], []
    with race.watch:
        mixed = np.zeros(len(y))  # the convex combination of all duals that belongs to the planes
        while True:
            beta = svm(stack.mix(weights), y, C, tol)
            if race.over((beta, weights), (mixed, weights)):
                return f"{race.rounds} SVMs"
            q = stack.energies(beta)
            betas.append(beta)
            planes.append(q / 2)
            values.append(beta @ y)
            reached = values[-1] - weights @ planes[-1]
            weights, theta, share = next_weights(np.array(planes), np.array(values))
            mixed = share @ np.array(betas)
            if reached - theta < 0.3 * (race.judge.upper - race.judge.lower):
                tol = max(tol / 3, 1e-8)


def next_weights(planes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """min theta over the simplex with theta >= values_t - planes_t' w: weights, theta, multipliers."""
    m = planes.shape[1]
    found = linprog(
        np.r_[np.zeros(m), 1.0],
        A_ub=np.column_stack([-planes, -np.ones(len(values))]),
        b_ub=-values,
        A_eq=np.r_[np.ones(m), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
        method="highs",
    )
    if not found.success:
        raise RuntimeError(f"HiGHS gave up: {found.message}")
    share = np.maximum(-found.ineqlin.marginals, 0.0)
    return np.maximum(found.x[:m], 0.0), found.x[m], share / share.sum()


def conic(stack: Stack, y, C: float, p: float, race: Race) -> str:
    """Clarabel on the dual cone programme with factored kernels, sharper until the judge agrees.

    The clock shows the factorisation and the one run that met the gap, not the coarser runs before it.
    """
    with race.watch:
        factors = [factor(K) for K in stack.array]
    shared = race.watch
    for tol in (1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
        race.watch = Stopwatch(shared.cpu, shared.wall)
        with race.watch:
            solution, weights = conic_run(factors, y, C, p, tol, race.cap - shared.cpu)
            done = race.over((np.array(solution.x[: len(y)]), weights))
        if done or solution.status == clarabel.SolverStatus.MaxTime:
            break
    return f"{solution.status}, {solution.iterations} iterations, rank {sum(map(len, factors))}"


def factor(K: np.ndarray) -> np.ndarray:
    """L (r, n) with L'L = K up to 1e-9, by pivoted Cholesky."""
    packed, pivots, rank, _ = dpstrf(K, tol=1e-9)
    L = np.zeros((rank, len(K)))
    L[:, pivots - 1] = np.triu(packed)[:rank]
    return L


def conic_run(factors, y, C, p, tol, seconds):
    """One run of Clarabel: its solution, and the weights (p = 1: from the multipliers of the cones)."""
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads, settings.time_limit = False, 1, max(seconds, 1.0)
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = tol
    P, q, A, b, cones, first_cone = (l1_programme if p == 1 else lp_programme)(factors, y, C, p)
    solution = clarabel.DefaultSolver(P, q, A, b, cones, settings).solve()
    if p != 1:
        return solution, None
    starts = first_cone + np.cumsum([0] + [len(L) + 1 for L in factors[:-1]])
    return solution, unit(np.maximum(np.array(solution.z)[starts], 1e-300), 1)


def l1_programme(factors, y, C, p):
    """min 1/2 g^2 - y'beta with |L_k beta| <= g; variables beta, g."""
    n = len(y)
    rows = [balance_and_box(y, C, extra=1)]
    for L in factors:
        rows.append((sp.vstack([entries([0], [n], -1.0, n + 1), pad(-L, n + 1)]), np.zeros(len(L) + 1)))
    A, b = stacked(rows)
    P = entries([n], [n], 1.0, n + 1, height=n + 1)
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    cones += [clarabel.SecondOrderConeT(len(L) + 1) for L in factors]
    return sp.csc_matrix(P), np.r_[-y, 0.0], A, b, cones, 2 * n + 1


def lp_programme(factors, y, C, p):
    """min 1/2 g^2 - y'beta with |L_k beta| <= v_k <= s_k^a g^(1-a), sum s = g; variables beta, g, v, s."""
    n, m = len(y), len(factors)
    width, g, v, s = n + 1 + 2 * m, n, n + 1, n + 1 + m
    total = entries(np.zeros(m), np.arange(s, s + m), 1.0, width) - entries([0], [g], 1.0, width)
    rows = [(total, np.zeros(1)), balance_and_box(y, C, extra=1 + 2 * m)]
    for k, L in enumerate(factors):
        rows.append((sp.vstack([entries([0], [v + k], -1.0, width), pad(-L, width)]), np.zeros(len(L) + 1)))
    for k in range(m):
        rows.append((entries([0, 1, 2], [s + k, g, v + k], -1.0, width, height=3), np.zeros(3)))
    A, b = stacked(rows)
    P = entries([g], [g], 1.0, width, height=width)
    cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(2 * n)]
    cones += [clarabel.SecondOrderConeT(len(L) + 1) for L in factors]
    cones += [clarabel.PowerConeT((p - 1) / (2 * p))] * m
    return sp.csc_matrix(P), np.r_[-y, np.zeros(1 + 2 * m)], A, b, cones, 2 * n + 2


def balance_and_box(y, C, extra):
    """Rows of sum(beta) = 0 and 0 <= y beta <= C, and their right-hand sides."""
    n, signs = len(y), sp.diags_array(y)
    rows = sp.vstack([sp.csc_array(np.ones((1, n))), -signs, signs])
    return pad(rows, n + extra), np.r_[0.0, np.zeros(n), np.full(n, C)]


def entries(i, j, value, width, height=1):
    """A sparse matrix that holds one value at a few places."""
    return sp.csc_array(
        (np.full(len(i), value), (np.asarray(i, int), np.asarray(j, int))), shape=(height, width)
    )


def pad(block, width):
    """Add empty columns on the right."""
    block = sp.csc_array(block)
    return sp.hstack([block, sp.csc_array((block.shape[0], width - block.shape[1]))])


def stacked(rows):
    """One matrix and one right-hand side from pairs of both."""
    return sp.csc_matrix(sp.vstack([r for r, _ in rows])), np.concatenate([b for _, b in rows])
