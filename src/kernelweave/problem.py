"""The records that travel between rooms: a problem, a point, a certificate, a history, a solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from .arrays import Array, namespace, to_host
from .grams.base import GramStack
from .losses.base import BoundLoss
from .penalties.base import MixingPenalty

CONTRADICTION = 1e-6  # by which a lower bound may be above the upper one through rounding, relatively


@dataclass(frozen=True)
class Problem:
    """One multiple-kernel problem: minimise ``Omega(||f_1||, .., ||f_m||) + sum_i L_i(f(x_i) + b) + t b``.

    Parameters
    ----------
    gram : GramStack
        The kernels on the training samples, however they are stored.
    loss : BoundLoss
        What an error costs, bound to its targets: ``losses.Hinge().bind(y, C=1.0)``.
    penalty : MixingPenalty
        How kernels are mixed.
    dual_sum : float or None, default=0.0
        What the duals sum to, the ``t`` above: 0 where the decision function has a constant b of its own at no cost, 1
        for outliers, whose constant has a price. None: there is no constant, and the duals may sum to anything.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.array([-2.0, -1.0, 1.0, 2.0])
    >>> stack = np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2)
    >>> problem = Problem(DenseGram(stack), losses.Hinge().bind(np.sign(x), C=1.0), penalties.L1())
    >>> solve(problem).gap <= 1e-3
    True
    """

    gram: GramStack
    loss: BoundLoss
    penalty: MixingPenalty
    dual_sum: float | None = 0.0

    def __post_init__(self) -> None:
        n, m = self.gram.shape
        if not isinstance(self.loss, BoundLoss):
            raise TypeError(f"loss must be bound to its targets, got {self.loss!r}: write loss.bind(y, C=1.0).")
        if self.loss.n != n:
            raise ValueError(
                f"y has {self.loss.n} entries but the kernels hold {n} samples: give one target for each sample."
            )
        object.__setattr__(self, "loss", self.loss.beside(self.gram.asarray(np.zeros(1))))
        self.gram.check_penalty(self.penalty)
        self.penalty.check(m)
        if self.dual_sum and self.loss.terms is not None:
            xp, terms = namespace(self.loss.y), self.loss.terms
            least, most = float(xp.sum(terms.lower)), float(xp.sum(terms.upper))
            if not least * (1.0 + 1e-12) - 1e-12 <= self.dual_sum <= most * (1.0 + 1e-12) + 1e-12:
                raise ValueError(
                    f"dual_sum={self.dual_sum:g} is not between {least:g} and {most:g}, what duals of {self.loss} can "
                    "sum to at these costs, so the problem has no optimum: use larger costs, or dual_sum=0.0."
                )
        if self.bias and not self.loss.takes_bias:
            raise ValueError(f"dual_sum must be None for {self.loss}: add a constant kernel if a constant is wanted.")

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.loss.n

    @property
    def bias(self) -> bool:
        """Whether the decision function has a constant of its own."""
        return self.dual_sum is not None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the duals: (n,), or (n, c) where a sample has c decision values."""
        return self.loss.shape

    def feasible(self, beta: Array) -> Array:
        """Return feasible duals near ``beta``: in the loss's domain and, with a bias, of the right sum."""
        beta = self.loss.project(beta)
        return beta if self.dual_sum is None else self.loss.balance(beta, self.dual_sum)

    def best_bias(self, f: Array, near: Any = None) -> Any:
        """Return the bias, one for each column, of least loss at decision values ``f``; zero where there is none.

        A search for it begins at ``near``.
        """
        return 0.0 if self.dual_sum is None else self.loss.best_bias(f, self.dual_sum, near)

    def total_loss(self, f: Array, bias: Any = 0.0) -> float:
        """Return the loss of all samples at ``f + bias``, and the price of the bias."""
        values = self.loss.value(f + bias)
        price = float(self.dual_sum or 0.0)
        paid = price * float(np.sum(to_host(bias) if hasattr(bias, "shape") else bias)) if price else 0.0
        return float(namespace(values).sum(values)) + paid

    def total_dual(self, beta: Array) -> float:
        """Return the sum of what feasible duals contribute through the loss."""
        values = self.loss.dual(beta)
        return float(namespace(values).sum(values))


@dataclass(frozen=True)
class Point:
    """What a solver offers for judgement: duals, kernel weights and, for monitoring, its running products.

    The model is ``K_w beta``, or ``K_w coef`` where a solver has coefficients that are better than its duals: these
    may be anything, and small errors of many duals together are a large one of decision values.
    """

    beta: np.ndarray  # (n,) or (n, c)
    weights: np.ndarray  # (m,)
    q: np.ndarray | None = None  # (m,)  beta' K_k beta, summed over c
    f: np.ndarray | None = None  # as beta, the model's decision values
    coef: np.ndarray | None = None  # as beta
    coef_q: np.ndarray | None = None  # (m,)  coef' K_k coef, summed over c


@dataclass(frozen=True)
class Certificate:
    """Proof of an answer: the optimum lies between ``lower`` and ``upper``.

    Attributes
    ----------
    lower, upper : float
        Value of a feasible dual point and of a primal point.
    scale : float
        The primal point is ``scale * K_w beta + intercept``, with the point's ``coef`` for beta where it has one.
    intercept : float or array of shape (c,)
        Its constant, one for each column where a sample has several decision values.
    dual_scale : float
        The dual point is ``dual_scale * beta``.
    rounding : float
        What the bounds may be off by where the optimum is far smaller than what it is computed from, as it can be for
        duals whose sum is held; bounds that are no further apart are not told apart.
    widened : float
        By how much the bounds were moved apart for what rounding may have done to them.
    """

    lower: float
    upper: float
    scale: float = 1.0
    intercept: Any = 0.0
    dual_scale: float = 1.0
    rounding: float = 0.0
    widened: float = 0.0

    @property
    def gap(self) -> float:
        """Relative duality gap ``(upper - lower) / |upper|``; infinite where the bounds contradict each other."""
        if self.lower - self.upper > CONTRADICTION * max(abs(self.upper), abs(self.lower)) + self.rounding:
            return np.inf
        width = max(self.upper - self.lower, 0.0)
        if width <= self.rounding:
            return 0.0
        return width / abs(self.upper) if self.upper else width

    def __str__(self) -> str:
        return f"{self.lower:.8g} <= optimum <= {self.upper:.8g}  (relative gap {self.gap:.2e})"


class Status(Enum):
    """How a fit ended, as sentences for people."""

    CONVERGED = "The duality gap is within tol."
    MAX_ITER = "max_iter was reached before the duality gap met tol: raise max_iter or tol."
    MAX_TIME = "max_time was reached before the duality gap met tol: raise max_time or tol."
    SLOW = (
        "The gap falls too slowly to wait for, as it may where costs are huge for kernels of low rank: use a smaller "
        "C, raise tol, or say in max_time how long to go on."
    )
    STALLED = "The solver could not improve further in floating point: raise tol, or scale the kernels."
    OWN_TEST = "The solver's own optimality test holds; the duality gap says how far that is from the optimum."
    EPOCHS = "The passes asked for are done; the duality gap says how far that is from the optimum."
    INTERRUPTED = "The fit was interrupted: this is the best certified point so far."
    STATIONARY = "The projected gradient is within tol; the problem is not convex, so other points may be better."
    UNTRAINED = "An SVM could not be trained well enough for its gradient to be known: scale the kernels."
    KINK = "No step along the gradient helps, which kernels of low rank can cause: raise tol, or add an RBF kernel."
    LONG = "The projected gradient falls too slowly to wait for: raise tol, or say in max_time how long to go on."
    STEEP = "max_iter SVMs were trained before the projected gradient met tol: raise max_iter or tol."


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
        Certified relative duality gap of the SVM at the parameters reached, which is a convex problem.

    Examples
    --------
    >>> from kernelweave.problem import Stationarity
    >>> print(Stationarity(value=2.0, violation=5e-4, gap=1e-9))
    objective 2: not a convex problem, violation of stationarity 5.0e-04; its SVM is certified to a gap of 1.0e-09
    """

    value: float
    violation: float
    gap: float

    def __str__(self) -> str:
        return (
            f"objective {self.value:.8g}: not a convex problem, violation of stationarity {self.violation:.1e}; "
            f"its SVM is certified to a gap of {self.gap:.1e}"
        )


@dataclass
class Descent(History):
    """Objectives along a fit of a problem that is not convex, one row for each step taken.

    ``lower`` and ``upper`` bracket the objective at that step's parameters, ``violation`` is how far from stationary
    they were, and ``iteration`` counts SVMs.
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
    intercept: Any
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
