"""The quadratically constrained quadratic programme, by an interior-point method for cones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...grams import EntryGram
from ...penalties.base import positive_energies
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, entries, l1_only, unit_of
from ..svm import combined
from .terms import mean_cost

ATTEMPTS: list[dict[str, Any]] = [  # settings of the cone solver, the next ones where the last did not do
    {"tol": 1e-8, "equilibrate_enable": False},
    {"tol": 1e-12, "equilibrate_enable": False},
    {"tol": 1e-12, "max_step_fraction": 0.8},
    {"tol": 1e-12, "max_step_fraction": 0.5},
]


@dataclass(frozen=True)
class QCQPSettings:
    """Constants of the cone programme."""

    rank: float = 1e-14  #: share of the largest eigenvalue of a kernel below which a direction is rounding
    faint: float = 1e-5  #: share below which a kernel gets weight zero, if that certifies


SETTINGS = QCQPSettings()


@dataclass
class QCQPState:
    """The programme in the form the cone solver reads, the attempts made, and the point found by the last."""

    programme: tuple[Any, ...]
    point: Point
    attempt: int = 0


class QCQP(Solver):
    """The cone programme of Lanckriet, Cristianini, Bartlett, El Ghaoui and Jordan (JMLR 2004), for ``penalty='l1'``.

    It maximises ``sum_i D_i(beta_i) - t`` with ``1/2 beta' K_k beta <= d_k^2 t`` for each kernel, a second-order cone
    each, by Clarabel; the multipliers of those constraints are the shares of the kernels. Every kernel is factored, and
    time grows with the cube of the number of samples: for hundreds of them. A step is a whole solution. Needs the
    package clarabel: ``pip install kernelweave[conic]``.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.MKLClassifier(solver="qcqp").get_params()["solver"]
    'qcqp'
    """

    name = "qcqp"
    needs = (EntryGram,)
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> QCQPState:
        n, m = problem.gram.shape
        beta = np.zeros(n) if start is None else start
        return QCQPState(_programme(problem, _clarabel()), Point(beta, 1.0 / (m * problem.penalty.prices(m))))

    def step(self, problem: Problem, state: QCQPState) -> bool:
        *parts, tops = state.programme
        answer = _clarabel().DefaultSolver(*parts, _settings(**ATTEMPTS[state.attempt])).solve()
        x, z = np.nan_to_num(answer.x), np.nan_to_num(answer.z)
        shares = positive_energies(z[tops] + z[tops + 1])
        beta = problem.feasible(mean_cost(problem.loss.box, unit_of(problem)) * x[: problem.n])
        state.point = Point(beta, shares / shares.sum() / problem.penalty.prices(shares.size))
        return True

    def read(self, problem: Problem, state: QCQPState) -> Point:
        return state.point

    def adapt(self, problem: Problem, state: QCQPState, certificate: Certificate) -> Status | None:
        state.attempt += 1
        return Status.STALLED if state.attempt == len(ATTEMPTS) else None

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Offer the weights without those that are next to nothing."""
        prices = problem.penalty.prices(point.weights.size)
        shares = point.weights * prices
        kept = np.where(shares > SETTINGS.faint, shares, 0.0)
        return [] if kept.all() else [Point(point.beta, kept / kept.sum() / prices)]


def _clarabel() -> Any:
    try:
        import clarabel
    except ImportError:
        raise ImportError("solver 'qcqp' needs clarabel: pip install kernelweave[conic], or use 'sqp'.") from None
    return clarabel


def _settings(tol: float, **options: Any) -> Any:
    settings = _clarabel().DefaultSettings()
    options |= {"verbose": False, "direct_solve_method": "qdldl"}
    options |= dict.fromkeys(["tol_gap_abs", "tol_gap_rel", "tol_feas"], tol)
    for name, value in options.items():
        setattr(settings, name, value)
    return settings


def _programme(problem: Problem, clarabel: Any) -> tuple[Any, ...]:
    """Return P, q, A, b and the cones of Clarabel's form, and the row of each kernel's cone.

    The unknowns are ``x = beta / c`` and ``s = t / (c u)``, with c the mean cost and u the size of the targets, so that
    neither is large or small, and a cone says ``|v|^2 <= s`` as ``|(2 v, s - 1)| <= s + 1`` with
    ``|v|^2 = 1/2 (c / u) x' K_k x / d_k^2``.
    """
    (n, m), box, u = problem.gram.shape, problem.loss.box, unit_of(problem)
    c, prices = mean_cost(box, u), problem.penalty.prices(m)
    upper, lower = np.flatnonzero(np.isfinite(box.upper)), np.flatnonzero(np.isfinite(box.lower))
    eye = sparse.eye_array(n, n + 1, format="csr")
    rows = [np.append(np.ones(n), 0.0)[None, :], eye[upper], -eye[lower]]
    right = [np.zeros(1), box.upper[upper] / c, -box.lower[lower] / c]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(upper.size + lower.size)]
    tops, height = [], 1 + upper.size + lower.size
    for k in range(m):
        factor = _factor(combined(entries(problem), np.eye(m)[k]) * (0.5 * c / u / prices[k]))
        last = np.append(np.zeros(n), -1.0)[None, :]
        rows += [last, last, np.hstack([-2.0 * factor.T, np.zeros((factor.shape[1], 1))])]
        right += [np.array([1.0, -1.0]), np.zeros(factor.shape[1])]
        cones.append(clarabel.SecondOrderConeT(2 + factor.shape[1]))
        tops.append(height)
        height += 2 + factor.shape[1]
    P = sparse.diags_array(np.append(box.ridge * c / u, 0.0), format="csc")
    A = sparse.vstack([sparse.csc_array(part) for part in rows], format="csc")
    return P, np.append(-box.linear / u, 1.0), A, np.concatenate(right), cones, np.array(tops)


def _factor(kernel: np.ndarray) -> np.ndarray:  # (n, r)
    """Return L with ``L L' = kernel``, as thin as the kernel's numerical rank."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > SETTINGS.rank * max(float(values[-1]), 1e-300)
    kept[-1] = True
    return vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
