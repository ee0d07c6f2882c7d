"""What a loss is: its value, its concave dual, the feasible duals, the best bias; and a loss bound to its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import Array, device_of, is_foreign, is_numpy, like, namespace, order_statistics, positive

SEARCH = 60  # halvings of an interval in which a number is searched for
ROUNDING = 1e-15  # share of the duals by which their sum may be off
SLIGHT = 1e-9  # share of the duals up to which what a sum lacks is rounding
EPSILON = float(np.finfo(float).eps)
FAINT = 1e-200  # duals that are as good as none
NEWTON = 100  # steps of a safeguarded Newton search for the best bias
QUADRATIC, ENTROPY, MARGIN, SOFTMAX = range(4)  # kinds of duals that compiled code knows


@dataclass(frozen=True)
class DualTerms:
    """The dual of a loss that is a sum over single duals: what one dual contributes, and its bounds.

    A dual b contributes ``linear b - ridge b^2 / 2 - kink |b|`` for ``lower <= b <= upper``. Where ``entropic``, it is
    ``(upper - lower) H(t)`` instead, with the entropy ``H(t) = -t log t - (1 - t) log(1 - t)`` of the share
    ``t = (b - lower) / (upper - lower)``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import losses
    >>> terms = losses.Hinge().terms(np.array([1.0, -1.0]), np.array([2.0, 2.0]))
    >>> terms.lower.tolist(), terms.upper.tolist()
    ([0.0, -2.0], [2.0, -0.0])
    """

    linear: Array  # (n,) or (n, t), as all of these
    ridge: Array
    lower: Array
    upper: Array
    kink: Array
    entropic: bool = False

    def take(self, index: Array) -> DualTerms:
        """Return the part of the samples ``index``."""
        return self._of(part[index] for part in self.parts)

    def column(self, c: int) -> DualTerms:
        """Return the duals of one of several targets."""
        return self._of(np.ascontiguousarray(part[:, c]) for part in self.parts)

    def _of(self, parts: Iterable[Array]) -> DualTerms:
        linear, ridge, lower, upper, kink = parts
        return DualTerms(linear, ridge, lower, upper, kink, self.entropic)

    @property
    def parts(self) -> tuple[Array, ...]:
        """Linear term, ridge, bounds and kink, in the order in which compiled code takes them."""
        return self.linear, self.ridge, self.lower, self.upper, self.kink

    @property
    def kinked(self) -> bool:
        """Whether any dual has a kink at zero."""
        return bool(namespace(self.kink).any(self.kink > 0))

    @property
    def bounded(self) -> bool:
        """Whether every dual has a bound on one side at least."""
        xp = namespace(self.lower)
        return not bool(xp.any(xp.isinf(self.lower) & xp.isinf(self.upper)))

    def value(self, beta: Array) -> Array:
        """What each dual contributes; only meaningful within the bounds."""
        if self.entropic:
            room = self.upper - self.lower
            share = (beta - self.lower) / room
            return -room * (entropy(share) + entropy(1.0 - share))
        return self.linear * beta - 0.5 * self.ridge * beta**2 - self.kink * namespace(beta).abs(beta)

    def project(self, beta: Array) -> Array:
        """Return the nearest duals within the bounds."""
        xp = namespace(beta)
        return xp.minimum(xp.maximum(beta, self.lower), self.upper)

    def directed(self, gradient: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the slopes of the objective as duals rise and as they fall, from ``gradient`` without the kink."""
        up = gradient + np.where(beta >= 0, self.kink, -self.kink)
        return up, gradient + np.where(beta > 0, self.kink, -self.kink)

    def dual_scale(self, beta: Array, h: float) -> float:
        """Return the multiple ``s`` of feasible duals with the best value of this dual less ``s^2 h``."""
        xp = namespace(beta)
        moved = xp.abs(beta) > FAINT
        if not bool(xp.any(moved)):
            return 1.0
        room = float(xp.min(xp.where(beta > 0, self.upper, self.lower)[moved] / beta[moved]))
        if self.entropic:
            return self._entropic_scale(beta[moved], self.lower[moved], self.upper[moved], room, h)
        curvature = 2.0 * h + float(xp.sum(self.ridge * beta**2))
        if curvature <= 0:
            return 1.0
        linear = float(xp.sum(self.linear * beta - self.kink * xp.abs(beta)))
        return max(min(linear / curvature, room), 0.0)

    def _entropic_scale(self, beta: Array, lower: Array, upper: Array, room: float, h: float) -> float:
        xp, low, high = namespace(beta), 0.0, room
        for _ in range(SEARCH):
            s = 0.5 * (low + high)
            above, below = positive(upper - s * beta) + 1e-300, positive(s * beta - lower) + 1e-300
            rises = float(xp.sum(beta * (xp.log(above) - xp.log(below)))) > 2.0 * s * h
            low, high = (s, high) if rises else (low, s)
        return low


class Loss(BaseEstimator):
    """What an error costs.

    ``value`` is L, ``dual`` is ``D(beta) = min_f L(f) + beta f``, so that ``L(f) - D(beta) + beta f >= 0`` always.
    All take targets ``y`` and costs ``C`` of shape (n,), as arrays of NumPy or of any library with the array API;
    :meth:`bind` puts both in, which is what a problem takes. A loss of your own that has `value`, `slope`, `dual` and,
    where not all duals are feasible, `project`, is learned by the solver `mirror`; one that has `value`, `slope` and
    `terms`, the description of its dual, by every solver whose duals are of that kind; and one that also has
    `curvature` (``smooth = True``) by Newton's method.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import losses
    >>> hinge = losses.Hinge()
    >>> y, C = np.array([1.0, -1.0]), np.ones(2)
    >>> isinstance(hinge, losses.Loss), hinge.value(np.array([0.5, -2.0]), y, C)
    (True, array([0.5, 0. ]))
    """

    #: kinds of targets it reads: "binary" (-1 and +1), "multiclass" (0, 1, ..), "regression", "outliers", "survival"
    tasks: tuple[str, ...] = ("binary",)
    #: whether its slope is continuous and `curvature` known
    smooth = False
    #: whether decision values may have a constant of their own, at no cost
    takes_bias = True
    #: whether each decision value has a loss of its own, so that several targets are several columns of the same loss
    elementwise = True
    #: whether decision values are (log) odds, from which `probabilities` follow
    probabilistic = False
    #: whether the total is a sum over samples, each with decision values of its own
    separable = True

    def bind(self, y: Any, C: Any = 1.0) -> BoundLoss:
        """Return this loss of given targets at given costs.

        Parameters
        ----------
        y : array of shape (n,), or (n, t) for several targets
            Targets as the loss reads them.
        C : float or array of shape (n,), default=1.0
            Cost of an error, one per sample.

        Returns
        -------
        BoundLoss

        Examples
        --------
        >>> from kernelweave.losses import Hinge
        >>> Hinge().bind([1, -1], C=2.0).value([0.0, -3.0]).tolist()
        [2.0, 0.0]
        """
        return BoundLoss(self, y, C)

    def value(self, f: Array, y: Array, C: Array) -> Array:
        """Loss of each sample at decision values ``f``."""
        raise NotImplementedError

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        """A subgradient of each sample's loss."""
        raise NotImplementedError

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        """Second derivative of each sample's loss, for losses whose slope is continuous."""
        raise NotImplementedError

    def curvature_times(self, f: Array, x: Array, y: Array, C: Array) -> Array:
        """Second derivative of the total loss times ``x``; a loss that is no sum over samples takes tables too."""
        return self.curvature(f, y, C) * x

    def curvature_between(self, f: Array, y: Array, C: Array) -> Callable[[int, int], Array | None]:
        """Return what gives the second derivatives of the losses by decision values i and j of a sample; None for zero.

        For losses that are a sum over samples.
        """
        bend = self.curvature(f, y, C)
        return lambda i, j: bend if f.ndim == 1 else (bend[:, i] if i == j else None)

    def terms(self, y: Array, C: Array) -> DualTerms | None:
        """Describe the dual as a sum over single duals, or return None where it is none."""
        return None

    def dual(self, beta: Array, y: Array, C: Array) -> Array:
        """Dual value of each sample; only meaningful for feasible ``beta``."""
        return self._terms(y, C).value(beta)

    def project(self, beta: Array, y: Array, C: Array) -> Array:
        """Return a point near ``beta`` at which the dual is finite."""
        terms = self.terms(y, C)
        return beta if terms is None else terms.project(beta)

    def _terms(self, y: Array, C: Array) -> DualTerms:
        terms = self.terms(y, C)
        if terms is None:
            raise NotImplementedError(f"{type(self).__name__} must define `dual`, or `terms`, which describes it.")
        return terms

    def compiled(self, y: Array, C: Array) -> tuple[int, np.ndarray, np.ndarray] | None:
        """Return the dual for compiled code: its kind, (5, n) linear, ridge, bounds and kink, and each sample's class.

        None where compiled code does not know it; `mirror` then asks `slope`, which takes longer.
        """
        terms = self.terms(y, C)
        if terms is None or terms.linear.ndim != 1:
            return None
        table = np.stack([np.asarray(part, dtype=float) for part in terms.parts])
        return (ENTROPY if terms.entropic else QUADRATIC), table, np.zeros(table.shape[1], dtype=np.int64)

    def shape(self, y: Array) -> tuple[int, ...]:
        """Shape of the duals and of the decision values."""
        return tuple(y.shape)

    def check(self, y: Array) -> None:
        """Refuse targets that the loss cannot read."""

    def encode(self, y: Array) -> Array:
        """Return targets that passed `check` in the form in which the formulas read them; itself if in that form."""
        return y

    def check_parameters(self) -> None:
        """Refuse parameters of its own that make no sense."""

    def dual_scale(self, beta: Array, y: Array, C: Array, h: float) -> float:
        """Return the scale ``s`` of ``beta`` with the best dual value when ``h(s^2 q) = s^2 h(q)``."""
        terms = self.terms(y, C)
        return 1.0 if terms is None else terms.dual_scale(beta, h)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> Any:
        """Return the bias b with the least total loss plus ``total b``, by Newton's method or halving on its slope.

        A bias that is ``near`` it is where the search begins. Where many are as good, the answer is the middle one, or
        the first found where such a bias is given.
        """
        low, high = self.bias_range(f, y, C, total)
        first = 0.0 if near is None else float(near)
        bias = first if low < first < high else 0.5 * (low + high)
        for trial in range(2 * NEWTON):
            slope, bend, noise = self._along_bias(f + bias, y, C, total)
            if abs(slope) <= noise:
                return bias if bend > 0 or near is not None else self._middle(f, y, C, total, (low, bias, high))
            low, high = (low, bias) if slope > 0 else (bias, high)
            step = -slope / bend if bend > 0 and trial < NEWTON else np.inf
            if abs(step) <= EPSILON * (1.0 + abs(bias)):
                break
            bias = bias + step if low < bias + step < high else 0.5 * (low + high)
            if bias in (low, high):
                break
        return bias

    def bias_range(self, f: Array, y: Array, C: Array, total: float) -> tuple[float, float]:
        """Return two biases between which the best one is."""
        xp = namespace(f)
        reach = float(xp.max(xp.abs(f)) + xp.max(xp.abs(y)) + 1.0)
        return -reach, reach

    def _along_bias(self, f: Array, y: Array, C: Array, total: float) -> tuple[float, float, float]:
        """Return slope and curvature of the total loss in the bias, and what rounding makes of the slope."""
        xp, slopes = namespace(f), self.slope(f, y, C)
        bend = float(xp.sum(self.curvature(f, y, C))) if self.smooth else 0.0
        return float(xp.sum(slopes)) + total, bend, EPSILON * (float(xp.sum(xp.abs(slopes))) + abs(total))

    def _middle(self, f: Array, y: Array, C: Array, total: float, around: tuple[float, float, float]) -> float:
        """Return the middle of where the slope in the bias is zero, which it is at the second of three places."""
        ends = []
        for outside in (around[0], around[2]):
            inside = around[1]
            for _ in range(SEARCH):
                middle = 0.5 * (inside + outside)
                slope, _, noise = self._along_bias(f + middle, y, C, total)
                inside, outside = (middle, outside) if abs(slope) <= noise else (inside, middle)
            ends.append(inside)
        return 0.5 * (ends[0] + ends[1])

    def balance(self, beta: Array, y: Array, C: Array, total: float = 0.0) -> Array:
        """Return a point near the feasible ``beta`` that sums to ``total``, as it must with a bias."""
        terms = self.terms(y, C)
        xp = namespace(beta)
        if terms is not None and bool(xp.all(xp.isinf(terms.lower) & xp.isinf(terms.upper))):
            for _ in range(2):  # the second time takes what rounding left of large duals
                beta = beta + (total - float(xp.sum(beta))) / beta.shape[0]
            return beta
        if total == 0.0:
            return scaled_to_balance(beta)
        assert terms is not None
        return filled_to_sum(beta, terms, total)

    def joint(self) -> Loss | None:
        """Return the loss of all classes at once that this is for two classes, or None where there is none."""
        return None

    def binary(self) -> Loss:
        """Return what this loss of all classes at once is for two classes."""
        return self

    def probabilities(self, f: Array) -> Array:
        """Return the probability of each class from decision values, for losses that are ``probabilistic``."""
        raise NotImplementedError


class BoundLoss:
    """A loss of given targets at given costs: what a problem knows of them.

    Parameters
    ----------
    loss : Loss
        The formulas.
    y : array of shape (n,), or (n, t) for several targets
        Targets as the loss reads them.
    C : float or array of shape (n,), default=1.0
        Cost of an error, one per sample.

    Examples
    --------
    >>> from kernelweave.losses import Squared
    >>> bound = Squared().bind([1.0, 2.0, 6.0])
    >>> bound.best_bias(bound.zero)
    3.0
    """

    def __init__(self, loss: Loss, y: Any, C: Any = 1.0):
        self.loss = loss
        self.y = y if is_foreign(y) else np.ascontiguousarray(y, dtype=float)
        self.n = int(self.y.shape[0]) if self.y.ndim else 0
        xp = namespace(self.y)
        cost = C if is_foreign(C) else np.asarray(C, dtype=float)
        if tuple(cost.shape) not in ((), (1,), (self.n,)):
            raise ValueError(
                f"C has shape {tuple(cost.shape)}: give one number, or one for each of the {self.n} samples."
            )
        cost = cost if type(cost) is type(self.y) else like(self.y, cost)
        if not bool(xp.all(cost > 0)) or not bool(xp.all(xp.isfinite(cost))):
            raise ValueError("C must be a positive finite number (or one per sample): use C=1.0 to begin with.")
        self.C = cost if cost.shape == (self.n,) else cost + xp.zeros(self.n, dtype=xp.float64, device=device_of(cost))
        loss.check_parameters()
        loss.check(self.y)
        self.y = loss.encode(self.y)
        self._cost = self.C if self.y.ndim == 1 or not loss.elementwise else self.C[:, None]

    def __repr__(self) -> str:
        return str(self.loss)

    # -- what it is ---------------------------------------------------------------------------------------

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of the duals: (n,), or (n, c) where a sample has c decision values."""
        return self.loss.shape(self.y)

    @property
    def several(self) -> bool:
        """Whether a sample has several decision values."""
        return len(self.shape) > 1

    @property
    def smooth(self) -> bool:
        """Whether the slope is continuous and the curvature known."""
        return self.loss.smooth

    @property
    def elementwise(self) -> bool:
        """Whether each decision value has a loss of its own."""
        return self.loss.elementwise

    @property
    def separable(self) -> bool:
        """Whether the total is a sum over samples, each with decision values of its own."""
        return self.loss.separable

    @property
    def takes_bias(self) -> bool:
        """Whether decision values may have a constant of their own."""
        return self.loss.takes_bias

    @cached_property
    def terms(self) -> DualTerms | None:
        """The dual as a sum over single duals, or None where it is none."""
        return self.loss.terms(self.y, self._cost)

    @property
    def quadratic(self) -> bool:
        """Whether the dual is a quadratic within bounds, up to a kink at zero, in every single dual."""
        return self.terms is not None and not self.terms.entropic

    @property
    def box(self) -> DualTerms:
        """The description of a dual that is known to be a sum over single duals."""
        assert self.terms is not None
        return self.terms

    @cached_property
    def compiled(self) -> tuple[int, np.ndarray, np.ndarray] | None:
        """The dual for compiled code, unless a subclass changed the formulas and not their description."""
        if not self._described or not is_numpy(self.y):
            return None
        return self.loss.compiled(self.y, self._cost)

    @property
    def _described(self) -> bool:
        """Whether no subclass changed the formulas and not their description."""
        order = type(self.loss).__mro__

        def first(*names: str) -> int:
            return next(place for place, kind in enumerate(order) if any(name in vars(kind) for name in names))

        return first("terms", "compiled", "kind") <= first("slope", "dual", "value")

    @property
    def rows(self) -> int | None:
        """The kind of a sample's row of duals, MARGIN or SOFTMAX, where it has one that is described."""
        return getattr(self.loss, "kind", None) if self._described else None

    @property
    def zero(self) -> Array:
        """Duals that are all zero."""
        xp = namespace(self.y)
        return xp.zeros(self.shape, dtype=xp.float64, device=device_of(self.y))

    # -- parts and copies ---------------------------------------------------------------------------------

    def take(self, index: Array) -> BoundLoss:
        """Return the loss of the samples ``index``; not for losses that are no sum over samples."""
        xp = namespace(self.y)
        return BoundLoss(self.loss, xp.take(self.y, index, axis=0), xp.take(self.C, index))

    def times(self, factor: float) -> BoundLoss:
        """Return the same loss at ``factor`` times the costs."""
        return BoundLoss(self.loss, self.y, self.C * factor)

    def column(self, c: int) -> BoundLoss:
        """Return the loss of one of several targets."""
        return BoundLoss(self.loss, self.y[:, c], self.C)

    def beside(self, array: Array) -> BoundLoss:
        """Return the loss with its targets in the library and on the device of ``array``."""
        same = is_foreign(self.y) == is_foreign(array) and namespace(self.y) is namespace(array)
        if same and device_of(self.y) == device_of(array):
            return self
        return BoundLoss(self.loss, like(array, self.y), like(array, self.C))

    # -- values -------------------------------------------------------------------------------------------

    def value(self, f: Any) -> Array:
        """Loss of each sample, or decision value, at decision values ``f``; the sum is the total."""
        return self.loss.value(self._like(f), self.y, self._cost)

    def slope(self, f: Any) -> Array:
        """A subgradient of the total loss, as ``f`` is."""
        return self.loss.slope(self._like(f), self.y, self._cost)

    def slope_of(self, i: int, f: Array) -> Array:  # (c,)
        """A subgradient of sample i's loss at its decision values ``f`` (c,), for losses that are separable."""
        values = f[None, :] if self.several else f
        return self.loss.slope(values, self.y[i : i + 1], self._cost[i : i + 1]).reshape(f.shape)

    def curvature(self, f: Any) -> Array:
        """Second derivative of each sample's loss."""
        return self.loss.curvature(self._like(f), self.y, self._cost)

    def curvature_times(self, f: Array, x: Array) -> Array:
        """Second derivative of the total loss times ``x``."""
        return self.loss.curvature_times(f, x, self.y, self._cost)

    def curvature_between(self, f: Array) -> Callable[[int, int], Array | None]:
        """Return what gives the second derivative of each sample's loss by its decision values i and j, (n,)."""
        return self.loss.curvature_between(f, self.y, self._cost)

    def dual(self, beta: Any) -> Array:
        """Dual value of each sample, or dual; the sum is the total, and only meaningful for feasible ``beta``."""
        terms = self._known("dual")
        return self.loss.dual(self._like(beta), self.y, self._cost) if terms is None else terms.value(self._like(beta))

    def _known(self, formula: str) -> DualTerms | None:
        """Return the terms of single duals, if the loss has them and leaves a formula to them."""
        return self.terms if getattr(type(self.loss), formula) is getattr(Loss, formula) else None

    def gaps(self, f: Array, beta: Array) -> Array:  # (n,)
        """Return each sample's part of the duality gap, ``L(f) - D(beta) + beta f``, for losses that are sums."""
        parts = [self.value(f), -self.dual(beta), f * beta]
        xp = namespace(f)
        return sum(xp.sum(part, axis=1) if part.ndim == 2 else part for part in parts)

    def dual_scale(self, beta: Array, h: float) -> float:
        """Return the scale ``s`` of ``beta`` with the best dual value when ``h(s^2 q) = s^2 h(q)``."""
        return self.loss.dual_scale(beta, self.y, self._cost, h)

    def project(self, beta: Array) -> Array:
        """Return duals near ``beta`` at which the dual is finite."""
        terms = self._known("project")
        return self.loss.project(beta, self.y, self._cost) if terms is None else terms.project(beta)

    def balance(self, beta: Array, total: float = 0.0) -> Array:
        """Return a point near the feasible ``beta`` whose columns each sum to ``total``, as they must with a bias."""
        if len(self.shape) > 1 and self.elementwise:
            columns = [self.column(c).balance(beta[:, c], total) for c in range(self.shape[1])]
            return namespace(beta).stack(columns, axis=1)
        return self.loss.balance(beta, self.y, self._cost, total)

    def best_bias(self, f: Array, total: float = 0.0, near: Any = None) -> Any:
        """Return the bias, one for each column, with the least total loss plus ``total`` times it.

        A search begins at a bias that is ``near`` it, if there is one.
        """
        if len(self.shape) > 1 and self.elementwise:
            biases = [self.column(c).best_bias(f[:, c], total) for c in range(self.shape[1])]
            return like(f, np.array(biases))
        return self.loss.best_bias(f, self.y, self._cost, total, near)

    def _like(self, values: Any) -> Array:
        return values if hasattr(values, "dtype") else np.asarray(values, dtype=float)


def entropy(t: Array) -> Array:
    """Return ``t log t``, zero where t is not above zero."""
    xp, there = namespace(t), t > 0
    return xp.where(there, t * xp.log(xp.where(there, t, 1.0 + 0.0 * t)), 0.0 * t)


def scaled_to_balance(beta: Array) -> Array:
    """Return duals that sum to zero: the heavier sign is scaled down, which stays in any convex domain with zero.

    Those whose sum is what a rounding leaves of it are returned as they are.
    """
    xp = namespace(beta)
    plus, minus = float(xp.sum(positive(beta))), float(xp.sum(positive(-beta)))
    if abs(plus - minus) <= ROUNDING * plus:
        return beta
    keep = min(plus, minus)
    up, down = keep / plus if plus else 0.0, keep / minus if minus else 0.0
    return up * positive(beta) - down * positive(-beta)


def filled_to_sum(beta: Array, terms: DualTerms, total: float) -> Array:
    """Return duals within their bounds that sum to ``total``: what is missing is taken from the room left, evenly.

    What rounding left is taken from duals between their bounds if these can give it, so that the others stay there.
    """
    xp = namespace(beta)
    for _ in range(3):  # once would do but for rounding
        missing, size = total - float(xp.sum(beta)), float(xp.sum(xp.abs(beta)))
        if abs(missing) <= ROUNDING * size:
            break
        room = terms.upper - beta if missing > 0 else beta - terms.lower
        between = xp.where((beta > terms.lower) & (beta < terms.upper), room, 0.0 * beta)
        if abs(missing) <= min(SLIGHT * size, float(xp.sum(between))):
            room = between
        endless = xp.isinf(room)
        if bool(xp.any(endless)):
            room = xp.astype(endless, beta.dtype) * abs(missing)
        whole = float(xp.sum(room))
        if whole <= 0.0:
            break
        beta = terms.project(beta + room * (missing / whole))
    return beta


def flat_point(kinks: Array, jumps: Array, start: float) -> float:
    """Return where a slope that is ``start`` far to the left, and rises by ``jumps`` at the ``kinks``, passes zero.

    The middle of where it is zero, if it is somewhere.
    """
    xp, last = namespace(kinks), kinks.shape[0] - 1
    if float(xp.max(jumps)) == float(xp.min(jumps)):
        count = -start / float(jumps[0])
        ends = [min(max(int(np.ceil(count * slack - 1.0)), 0), last) for slack in (1.0 - 1e-12, 1.0 + 1e-12)]
        if abs(count - round(count)) <= 1e-12 * max(count, 1.0):
            ends = [min(max(round(count) - 1, 0), last), min(max(round(count), 0), last)]
        return 0.5 * sum(order_statistics(kinks, ends))
    order = xp.argsort(kinks)
    below = xp.cumulative_sum(xp.take(jumps, order))
    counts = [int(xp.sum(xp.astype(below < -start * slack, xp.int64))) for slack in (1 - 1e-12, 1 + 1e-12)]
    return 0.5 * sum(float(kinks[order[min(count, last)]]) for count in counts)
