"""Least squares at fixed weights: linear equations, whose factors all costs and classes on the same kernels share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..grams import CombinableGram, DenseGram
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, centred_box, combinable

ROUNDS = 5  # corrections of what rounding left of the equations, at most
ALIKE = 1e-15  # relative difference of ridges that are the same
AS_MANY = 10  # factors of Cholesky's take as long as eigenvectors


@dataclass(frozen=True)
class Factors:
    """Factors of ``S (K_w + ridge diag(shape)) S`` where S makes the ridge one number.

    Eigenvectors, with their values, serve every ridge; Cholesky's factor serves one, in a tenth of the time.
    """

    weights: np.ndarray  # (m,)
    shape: np.ndarray  # (n,) ridges over the first
    ridge: float
    matrix: np.ndarray  # (n, n) eigenvectors, or Cholesky's lower factor
    values: np.ndarray | None = None  # (n,) None with Cholesky's factor
    made: int = 1  # factors of this kernel so far

    def alike(self, weights: np.ndarray, shape: np.ndarray) -> bool:
        """Whether these are of the same kernel and ridges but for a factor."""
        return np.array_equal(self.weights, weights) and np.allclose(self.shape, shape, rtol=ALIKE, atol=0.0)

    def serves(self, ridge: float) -> bool:
        """Whether equations with this ridge are solved by these factors."""
        return self.values is not None or ridge == self.ridge

    def solve(
        self,
        right: np.ndarray,  # (n, c)
        ridge: float,
    ) -> np.ndarray:  # (n, c)
        """Return the solutions of the equations with a ridge that these factors serve."""
        root = np.sqrt(self.shape)[:, None]
        if self.values is None:
            return cho_solve((self.matrix, True), right / root, check_finite=False) / root
        turned = self.matrix.T @ (right / root)
        return self.matrix @ (turned / (self.values + ridge)[:, None]) / root


@dataclass
class DirectState:
    """Duals, and what they miss."""

    linear: np.ndarray  # (n, c)
    ridge: np.ndarray  # (n,)
    weights: np.ndarray  # (m,)
    factors: Factors
    beta: np.ndarray  # (n, c)
    ones: np.ndarray | None  # (n, 1) solution for a right side of ones, None without a bias
    rounds: int = 0


class Direct(Solver):
    """Linear equations for the duals of least squares at fixed weights, corrected until they hold.

    Problems on the same stored kernels share the factors: those at one cost Cholesky's, those at many the eigenvectors.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> gram = kw.DenseGram((X @ X.T)[:, :, None])
    >>> problem = kw.Problem(gram, kw.losses.Squared().bind(X[:, 0]), kw.penalties.Fixed())
    >>> kw.solve(problem, "direct", tol=1e-9).n_iter
    1
    """

    name = "direct"
    needs = (CombinableGram,)
    kinks = False
    biasless = True
    several = True

    def refuse(self, problem: Problem) -> str | None:
        box = problem.loss.box
        if not problem.penalty.fixed:
            return f"works at fixed weights, not with {problem.penalty}: use solver='auto'."
        if not np.all(np.isinf(box.lower) & np.isinf(box.upper)) or not np.all(box.ridge > 0.0):
            return f"solves linear equations, and the duals of {problem.loss} have bounds: use solver='auto'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> DirectState:
        n, m = problem.gram.shape
        box = centred_box(problem)
        linear, ridge = box.linear.reshape(n, -1), box.ridge.reshape(n, -1)[:, 0]
        weights = problem.penalty.weights(np.ones(m))
        factors = factors_of(combinable(problem), weights, ridge)
        ones = factors.solve(np.ones((n, 1)), float(ridge[0])) if problem.bias else None
        return DirectState(linear, ridge, weights, factors, np.zeros_like(linear), ones)

    def step(self, problem: Problem, state: DirectState) -> bool:
        left = state.linear
        if state.rounds:
            left = left - state.ridge[:, None] * state.beta
            left = left - problem.gram.decision(_shaped(problem, state.beta), state.weights).reshape(left.shape)
        beta = state.beta + state.factors.solve(left, float(state.ridge[0]))
        if state.ones is not None:
            beta = beta - state.ones * (beta.sum(axis=0) / state.ones.sum())
        state.beta, state.rounds = beta, state.rounds + 1
        return True

    def read(self, problem: Problem, state: DirectState) -> Point:
        return Point(problem.feasible(_shaped(problem, state.beta)), state.weights)

    def adapt(self, problem: Problem, state: DirectState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.rounds >= ROUNDS else None


def _shaped(problem: Problem, beta: np.ndarray) -> np.ndarray:
    return beta.reshape(problem.shape)


def factors_of(
    gram: CombinableGram,
    weights: np.ndarray,  # (m,)
    ridge: np.ndarray,  # (n,)
) -> Factors:
    """Return factors that serve these ridges: those that the last problem on these kernels left, or new ones.

    They are eigenvectors from where Cholesky's factors have taken as long, so that it is at most twice the best time.
    """
    shape, first = ridge / ridge[0], float(ridge[0])
    kept = [one for one in gram.factors if one.alike(weights, shape)] if isinstance(gram, DenseGram) else []
    serving = [one for one in kept if one.serves(first)]
    if serving:
        return serving[0]
    kernel = gram.combine(np.arange(shape.size), weights)
    root = np.sqrt(shape)
    kernel /= root[:, None]
    kernel /= root
    made = kept[0].made if kept else 0
    found = _by_cholesky(kernel, weights, shape, first, made + 1) if made < AS_MANY else None
    if found is None:
        values, vectors = np.linalg.eigh(kernel)
        found = Factors(weights, shape, first, vectors, np.maximum(values, 0.0))
    if isinstance(gram, DenseGram):
        gram.factors = [found]
    return found


def _by_cholesky(
    kernel: np.ndarray, weights: np.ndarray, shape: np.ndarray, ridge: float, made: int
) -> Factors | None:
    """Return Cholesky's factor, None where rounding made the kernel indefinite by more than the ridge."""
    ridged = kernel.copy()
    ridged.flat[:: shape.size + 1] += ridge
    try:
        lower = cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)[0]
    except np.linalg.LinAlgError:
        return None
    return Factors(weights, shape, ridge, lower, made=made)
