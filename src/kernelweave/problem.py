"""The records that travel between rooms: a problem, a point, a certificate, a history, a solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from .arrays import device_of, namespace
from .grams.base import GramStack
from .grams.products import as_weighed
from .losses.base import Loss
from .penalties.base import MixingPenalty

CONTRADICTION = 1e-6  # by which a lower bound may be above the upper one through rounding, relatively


@dataclass(frozen=True)
class Problem:
    """One multiple-kernel problem: minimise ``Omega(||f_1||, .., ||f_m||) + sum_i L_i(f(x_i) + b)``.

    Parameters
    ----------
    gram : GramStack
        The kernels on the training samples, however they are stored.
    loss : Loss
        What an error costs.
    penalty : MixingPenalty
        How kernels are mixed.
    y : ndarray of shape (n,)
        Targets as the loss reads them, -1 and +1 for a margin loss.
    C : float or ndarray of shape (n,)
        Cost of an error, one per sample.
    bias : bool, default=True
        Whether the decision function has a constant b of its own, at no cost.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> stack = np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2)
    >>> problem = Problem(DenseGram(stack), losses.Hinge(), penalties.L1(), np.sign(x), C=1.0)
    >>> solve(problem).gap <= 1e-3
    True
    """

    gram: GramStack
    loss: Loss
    penalty: MixingPenalty
    y: np.ndarray
    C: np.ndarray
    bias: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", as_weighed(self.gram, self.penalty))
        n, m = self.gram.shape
        y, cost = self.gram.asarray(self.y), self.gram.asarray(self.C)
        xp = namespace(y)
        if tuple(cost.shape) not in ((), (1,), (n,)):
            raise ValueError(f"C has shape {tuple(cost.shape)}: give one number, or one for each of the {n} samples.")
        cost = cost if cost.shape == (n,) else cost + xp.zeros(n, dtype=xp.float64, device=device_of(cost))
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "C", cost)
        if y.shape != (n,):
            raise ValueError(f"y has shape {tuple(y.shape)} but the kernels hold {n} samples: give one target each.")
        if not xp.all(cost > 0) or not xp.all(xp.isfinite(cost)):
            raise ValueError("C must be a positive finite number (or one per sample): use C=1.0 to begin with.")
        self.penalty.check(m)
        self.loss.check(y)
        if self.bias and len(self.shape) > 1:
            raise ValueError(f"bias must be False for {self.loss}: add a constant kernel if one is wanted.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the duals: (n,), or (n, c) where a sample has c decision values."""
        return self.loss.shape(self.y)

    def feasible(self, beta: np.ndarray) -> np.ndarray:
        """Return feasible duals near ``beta``: in the loss's domain and, with a bias, summing to zero."""
        beta = self.loss.project(beta, self.y, self.C)
        return self.loss.balance(beta) if self.bias else beta

    def best_bias(self, f: np.ndarray) -> float:
        """Return the bias of least loss at decision values ``f``; zero where there is none."""
        return self.loss.best_bias(f, self.y, self.C) if self.bias else 0.0


@dataclass(frozen=True)
class Point:
    """What a solver offers for judgement: duals, kernel weights and, for monitoring, its running products."""

    beta: np.ndarray  # (n,) or (n, c)
    weights: np.ndarray  # (m,)
    q: np.ndarray | None = None  # (m,)  beta' K_k beta, summed over c
    f: np.ndarray | None = None  # as beta, K_w beta


@dataclass(frozen=True)
class Certificate:
    """Proof of an answer: the optimum lies between ``lower`` and ``upper``.

    Attributes
    ----------
    lower, upper : float
        Value of a feasible dual point and of a primal point.
    scale, intercept : float
        The primal point is ``scale * K_w beta + intercept``.
    stretch : float
        The dual point is ``stretch * beta``.
    """

    lower: float
    upper: float
    scale: float = 1.0
    intercept: float = 0.0
    stretch: float = 1.0

    @property
    def gap(self) -> float:
        """Relative duality gap ``(upper - lower) / |upper|``; infinite where the bounds contradict each other."""
        if self.lower - self.upper > CONTRADICTION * max(abs(self.upper), abs(self.lower)):
            return np.inf
        width = max(self.upper - self.lower, 0.0)
        return width / abs(self.upper) if self.upper else width

    def __str__(self) -> str:
        return f"{self.lower:.8g} <= optimum <= {self.upper:.8g}  (relative gap {self.gap:.2e})"


class Status(Enum):
    """How a fit ended, as sentences for people."""

    CONVERGED = "The duality gap is within tol."
    MAX_ITER = "max_iter was reached before the duality gap met tol: raise max_iter or tol."
    STALLED = "The solver could not improve further in floating point: raise tol, or scale the kernels."
    OWN_TEST = "The solver's own optimality test holds; the duality gap says how far that is from the optimum."
    EPOCHS = "The passes asked for are done; the duality gap says how far that is from the optimum."
    INTERRUPTED = "The fit was interrupted: this is the best certified point so far."
    STATIONARY = "The projected gradient is within tol; the problem is not convex, so other points may be better."
    UNTRAINED = "A machine could not be trained well enough for its gradient to be known: scale the kernels."
    KINK = "No step along the gradient helps, which kernels of low rank can cause: raise tol, or add an RBF kernel."
    STEEP = "max_iter machines were trained before the projected gradient met tol: raise max_iter or tol."


@dataclass
class History:
    """Bounds along a fit, one row each time the judge was asked.

    ``hit_rate`` is the share of the columns asked for so far that had been kept, where kernels are computed on demand.
    """

    iteration: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    kernels: list[int] = field(default_factory=list)
    hit_rate: list[float] = field(default_factory=list)

    def add(
        self, iteration: int, seconds: float, certificate: Certificate, weights: np.ndarray, hit_rate: float
    ) -> None:
        """Record one row."""
        self.iteration.append(iteration)
        self.seconds.append(seconds)
        self.lower.append(certificate.lower)
        self.upper.append(certificate.upper)
        self.kernels.append(int(np.count_nonzero(weights)))
        self.hit_rate.append(hit_rate)

    @property
    def gap(self) -> list[float]:
        """Relative gap of each row."""
        return [Certificate(low, up).gap for low, up in zip(self.lower, self.upper, strict=True)]


@dataclass(frozen=True)
class Stationarity:
    """What can be said of an answer to a problem that is not convex: no bound, but that small moves do not help.

    Attributes
    ----------
    value : float
        The objective.
    violation : float
        Root of the fall of the objective's logarithm that a unit step against its gradient promises once it is
        projected on what is allowed: the gradient's length where no bound is in the way, zero where stationary only.
    gap : float
        Certified relative duality gap of the machine at the parameters reached, which is a convex problem.

    Examples
    --------
    >>> from kernelweave.problem import Stationarity
    >>> print(Stationarity(value=2.0, violation=5e-4, gap=1e-9))
    objective 2: not a convex problem, violation of stationarity 5.0e-04; its machine is certified to a gap of 1.0e-09
    """

    value: float
    violation: float
    gap: float

    def __str__(self) -> str:
        return (
            f"objective {self.value:.8g}: not a convex problem, violation of stationarity {self.violation:.1e}; "
            f"its machine is certified to a gap of {self.gap:.1e}"
        )


@dataclass
class Descent(History):
    """Objectives along a fit of a problem that is not convex, one row for each step taken.

    ``lower`` and ``upper`` bracket the objective at that step's parameters, ``violation`` is how far from stationary
    they were, and ``iteration`` counts machines.
    """

    violation: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Solution:
    """A certified answer.

    Attributes
    ----------
    beta : ndarray of shape (n,) or (n, c)
        The feasible dual point that gives the lower bound.
    coef : ndarray of the same shape
        Coefficients of the primal point that gives the upper bound: ``f = K_w coef + intercept``.
    weights : ndarray of shape (m,)
        Kernel weights of that primal point.
    """

    beta: np.ndarray
    coef: np.ndarray
    weights: np.ndarray
    intercept: float
    certificate: Certificate
    status: Status
    history: History
    n_iter: int
    seconds: float
    solver: str

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return self.certificate.gap

    @property
    def converged(self) -> bool:
        """Whether the gap met the tolerance asked for."""
        return self.status is Status.CONVERGED
