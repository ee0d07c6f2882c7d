"""Penalties on the size of the kernel weights."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from .base import MixingPenalty, per_kernel, positive_energies, square
from .prox import EntropicProx, ProximalStage, SimplexProx

FAINT = 1e-12  # share of the largest energy below which a kernel's own curvature is not followed


def _pick(value: Any, index: np.ndarray) -> Any:
    """Return the entries ``index`` of a per-kernel parameter, or the one number there is."""
    return value if value is None or np.ndim(value) == 0 else np.asarray(value)[index]


def _on_sphere(x: np.ndarray, power: float, p: float) -> np.ndarray:
    """Return ``x**power`` scaled so that its p-norm is one; ``x`` may hold zeros."""
    raised = (positive_energies(x) / positive_energies(x).max()) ** power
    return raised / lp_norm(raised, p)


def lp_norm(x: np.ndarray, p: float) -> float:
    """Return the p-norm of a nonnegative vector without overflow."""
    top = float(x.max(initial=0.0))
    if top <= 0 or np.isinf(p):
        return top
    return top * float(np.sum((x / top) ** p)) ** (1.0 / p)


def _conjugate(p: float) -> float:
    """Return p / (p - 1), with its limits."""
    return 1.0 if np.isinf(p) else np.inf if p == 1 else p / (p - 1.0)


def _block_power(p: float) -> float:
    """Return 2p / (p + 1): the block norm that belongs to the p-norm on weights."""
    return 2.0 if np.isinf(p) else 2.0 * p / (p + 1.0)


def _norm_power(p: float) -> float:
    """Return 2 / (p + 1): weights go with this power of the block norms."""
    return 0.0 if np.isinf(p) else 2.0 / (p + 1.0)


def _check_p(p: Any, name: str, least: str) -> None:
    if isinstance(p, bool) or not isinstance(p, Real) or not float(p) > 1:
        raise ValueError(f"{name} must be greater than 1, got {p!r}: {least}")


class Fixed(MixingPenalty):
    """Weights given beforehand: an ordinary support vector machine on ``sum_k w_k K_k``.

    Parameters
    ----------
    values : array of shape (m,), optional
        The weights; ``1/m`` each by default.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import Fixed
    >>> Fixed().weights(np.array([1.0, 3.0])).tolist()
    [0.5, 0.5]
    """

    fixed = True

    def __init__(self, values: Any = None):
        self.values = values

    def check(self, m: int) -> None:
        w = self._values(m)
        if w.shape != (m,):
            raise ValueError(f"values has shape {w.shape} but there are {m} kernels: give one weight each.")
        if not np.all(w >= 0) or not np.any(w > 0) or not np.all(np.isfinite(w)):
            raise ValueError("values must be finite and not negative, with at least one above zero.")

    def _values(self, m: int) -> np.ndarray:
        return np.full(m, 1.0 / m) if self.values is None else np.asarray(self.values, dtype=float)

    def value(self, q: np.ndarray) -> float:
        return 0.5 * float(self._values(q.size) @ np.maximum(q, 0.0))

    def weights(self, q: np.ndarray) -> np.ndarray:
        return self._values(q.size).copy()

    def curvature(self, q: np.ndarray) -> np.ndarray:
        return np.zeros((q.size, q.size))

    def norm(self, u: np.ndarray) -> float:
        w = self._values(u.size)
        if np.any(u[w == 0] > 0):
            return np.inf
        return 0.5 * float(np.sum(u[w > 0] ** 2 / w[w > 0]))

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        return self._values(u.size).copy()

    def restrict(self, index: np.ndarray, m: int) -> Fixed:
        return Fixed(self._values(m)[index])

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.fixed, self._values(m)


class L1(MixingPenalty):
    """Sparse mixing, the support kernel machine: ``sum_k d_k^2 w_k <= 1``.

    Parameters
    ----------
    d : float or array of shape (m,), default=1.0
        Price of each kernel; a dearer kernel must help more to be kept.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import L1
    >>> L1().value(np.array([4.0, 1.0]))
    2.0
    """

    smooth = False
    sparse = True
    on_simplex = True

    def __init__(self, d: Any = 1.0):
        self.d = d

    def check(self, m: int) -> None:
        per_kernel(self.d, m, "d")

    def value(self, q: np.ndarray) -> float:
        return 0.5 * float(np.max(np.maximum(q, 0.0) / self.prices(q.size)))

    def weights(self, q: np.ndarray) -> np.ndarray:
        """One subgradient, all weight on one kernel; a solver that mixes tied kernels does better."""
        prices = self.prices(q.size)
        best = int(np.argmax(q / prices))
        w = np.zeros(q.size)
        w[best] = 1.0 / prices[best]
        return w

    def prices(self, m: int) -> np.ndarray:
        """Return ``d_k**2``, one per kernel."""
        return per_kernel(self.d, m, "d") ** 2

    def stage(
        self, q: np.ndarray, kind: str = "entropic", shares: np.ndarray | None = None, strength: float = 2.0
    ) -> ProximalStage:
        prices = self.prices(q.size)
        center = np.full(q.size, 1.0 / q.size) if shares is None else shares
        step: type[ProximalStage] = EntropicProx if kind == "entropic" else SimplexProx
        return step(center, strength / max(float(np.max(q / prices)), 1e-300), prices)

    def norm(self, u: np.ndarray) -> float:
        return 0.5 * square(float(np.sqrt(self.prices(u.size)) @ u))

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        d = np.sqrt(self.prices(u.size))
        u = positive_energies(u)
        return u / (d * (d @ u))

    def weight_prices(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        prices = self.prices(w.size)
        return prices * w, prices, np.zeros(w.size)

    def restrict(self, index: np.ndarray, m: int) -> L1:
        return L1(_pick(self.d, index))


class Lp(MixingPenalty):
    """Dense mixing of adjustable evenness: ``||w||_p <= 1``.

    Parameters
    ----------
    p : float, default=2.0
        Greater than 1; near 1 few kernels dominate, ``inf`` is the plain sum of all kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import Lp
    >>> Lp(2).weights(np.array([3.0, 4.0])).round(6).tolist()
    [0.6, 0.8]
    """

    def __init__(self, p: float = 2.0):
        self.p = p

    def check(self, m: int) -> None:
        _check_p(self.p, "p", "use penalty='l1' for p=1; below 1 the problem is not convex.")

    def value(self, q: np.ndarray) -> float:
        return 0.5 * lp_norm(np.maximum(q, 0.0), _conjugate(self.p))

    def weights(self, q: np.ndarray) -> np.ndarray:
        return _on_sphere(q, 0.0 if np.isinf(self.p) else 1.0 / (self.p - 1.0), self.p)

    def curvature(self, q: np.ndarray) -> np.ndarray:
        if np.isinf(self.p):
            return np.zeros((q.size, q.size))
        q = positive_energies(q)
        w = self.weights(q)
        own = np.diag(w / np.maximum(q, FAINT * q.max()))
        return (own - np.outer(w, w) / lp_norm(q, _conjugate(self.p))) / (self.p - 1.0)

    def curvature_times(self, q: np.ndarray, x: np.ndarray) -> np.ndarray:
        if np.isinf(self.p):
            return np.zeros_like(x)
        q = positive_energies(q)
        w = self.weights(q)
        own = (w / np.maximum(q, FAINT * q.max()))[:, None] * x
        return (own - np.outer(w, w @ x) / lp_norm(q, _conjugate(self.p))) / (self.p - 1.0)

    def norm(self, u: np.ndarray) -> float:
        return 0.5 * square(lp_norm(u, _block_power(self.p)))

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        return _on_sphere(u, _norm_power(self.p), self.p)

    def weight_prices(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        p = self.p
        return None if p > 100 else (w**p, p * w ** (p - 1.0), p * (p - 1.0) * w ** (p - 2.0))

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.lp, np.array([self.p], dtype=float)


class SquaredLp(MixingPenalty):
    """Dense mixing at a price instead of under a bound: ``strength / 2 ||w||_p^2`` is added to the objective.

    The weights are those of :class:`Lp` times a size ``s``, which depends on C: what this penalty finds at C is what
    `Lp` finds at ``s C``, decision values included.

    Parameters
    ----------
    p : float, default=2.0
        Greater than 1; near 1 few kernels dominate.
    strength : float, default=1.0
        Price of large weights, the lambda of Vishwanathan, Sun, Theera-Ampornpunt and Varma (2010).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import SquaredLp
    >>> SquaredLp(2, strength=0.5).weights(np.array([3.0, 4.0])).round(6).tolist()
    [3.0, 4.0]
    """

    homogeneous = False
    steep = True

    def __init__(self, p: float = 2.0, strength: float = 1.0):
        self.p = p
        self.strength = strength

    def check(self, m: int) -> None:
        _check_p(self.p, "p", "use penalty='l1' for sparse mixing; below 1 the problem is not convex.")
        if np.ndim(self.strength):
            raise ValueError("strength must be one positive number for all kernels.")
        per_kernel(self.strength, m, "strength")

    def _energy(self, q: np.ndarray) -> float:
        return lp_norm(np.maximum(q, 0.0), _conjugate(self.p))

    def value(self, q: np.ndarray) -> float:
        return square(self._energy(q)) / (8.0 * self.strength)

    def weights(self, q: np.ndarray) -> np.ndarray:
        return Lp(self.p).weights(q) * (self._energy(q) / (2.0 * self.strength))

    def curvature(self, q: np.ndarray) -> np.ndarray:
        shape = Lp(self.p).weights(q)
        bend = self._energy(q) * Lp(self.p).curvature(q)
        return (np.outer(shape, shape) + bend) / (2.0 * self.strength)

    def _size(self, u: np.ndarray) -> float:
        """Return the p-norm of the best weights for the block norms ``u``."""
        return float(lp_norm(u, _block_power(self.p)) / np.sqrt(2.0 * self.strength)) ** (2.0 / 3.0)

    def norm(self, u: np.ndarray) -> float:
        return 1.5 * self.strength * square(self._size(u))

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        return self._size(u) * Lp(self.p).weights_of_norms(u)

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.squared_lp, np.array([self.p, self.strength], dtype=float)


class MoreauYosida(MixingPenalty):
    """The smoothed support kernel machine: ``sum_k d_k^2 w_k / (1 - a_k^2 w_k) <= 1``.

    Parameters
    ----------
    a : float or array of shape (m,), default=0.5
        Amount of smoothing; as it goes to zero this becomes :class:`L1`.
    d : float or array of shape (m,), default=1.0
        Price of each kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import MoreauYosida
    >>> MoreauYosida(a=0.5).weights(np.array([4.0, 1.0, 0.25])).round(6).tolist()
    [0.8, 0.0, 0.0]
    """

    kinked = True
    sparse = True

    def __init__(self, a: Any = 0.5, d: Any = 1.0):
        self.a = a
        self.d = d

    def check(self, m: int) -> None:
        self._ad(m)

    def _ad(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        return per_kernel(self.a, m, "a"), per_kernel(self.d, m, "d")

    def _level(self, q: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the level gamma of the 2004 paper, by Newton from zero, and each kernel's own."""
        a, d = self._ad(q.size)
        own = np.sqrt(positive_energies(q)) / d
        slope = (d / a) ** 2
        level = 0.0
        for _ in range(q.size + 1):
            above = own > level
            new = float(np.sum(slope[above] * own[above]) / (1.0 + np.sum(slope[above])))
            if new <= level * (1 + 1e-15):
                break
            level = new
        return level, own

    def value(self, q: np.ndarray) -> float:
        if q.max(initial=0.0) <= 0:
            return 0.0
        a, d = self._ad(q.size)
        level, own = self._level(q)
        return 0.5 * level**2 + 0.5 * float(np.sum((d / a) ** 2 * np.maximum(own - level, 0.0) ** 2))

    def weights(self, q: np.ndarray) -> np.ndarray:
        a, _ = self._ad(q.size)
        level, own = self._level(q)
        return np.maximum(1.0 - level / np.maximum(own, 1e-300), 0.0) / a**2

    def unsmoothed(self, q: np.ndarray) -> np.ndarray:
        """Return the weights ``w / (1 - a^2 w)``, which satisfy ``sum d_k^2 w_k = 1`` (eta-tilde of the paper)."""
        a, _ = self._ad(q.size)
        level, own = self._level(q)
        return np.maximum(own - level, 0.0) / (a**2 * level)

    def curvature(self, q: np.ndarray) -> np.ndarray:
        a, d = self._ad(q.size)
        level, own = self._level(q)
        above = own > level
        own = np.where(above, own, 1.0)
        pull = above / (a**2 * own)
        spring = 1.0 + float(np.sum((d / a)[above] ** 2))
        return 0.5 * (np.diag(pull * level / (own * d) ** 2) - np.outer(pull, pull) / spring)

    def norm(self, u: np.ndarray) -> float:
        a, d = self._ad(u.size)
        return 0.5 * square(float(d @ u)) + 0.5 * float(a**2 @ u**2)

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        a, _ = self._ad(u.size)
        plain = L1(self.d).weights_of_norms(u)
        return plain / (1.0 + a**2 * plain)

    def weight_prices(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a, d = self._ad(w.size)
        left = 1.0 - a**2 * w
        return d**2 * w / left, (d / left) ** 2, 2.0 * (a * d) ** 2 / left**3

    def ceiling(self, m: int) -> np.ndarray:
        return 1.0 / self._ad(m)[0] ** 2

    def restrict(self, index: np.ndarray, m: int) -> MoreauYosida:
        return MoreauYosida(_pick(self.a, index), _pick(self.d, index))

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.moreau_yosida, np.concatenate(self._ad(m))


class ElasticNet(MixingPenalty):
    """Elastic net on the block norms: ``c1 sum_k u_k + c2/2 sum_k u_k^2``.

    Parameters
    ----------
    c1 : float, default=1.0
        Price of using a kernel at all; kernels below it get exactly zero, perhaps all of them.
    c2 : float, default=1.0
        Price of using it much.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import ElasticNet
    >>> ElasticNet(0.6, 0.5).weights(np.array([4.0, 1.0, 0.25])).round(6).tolist()
    [1.4, 0.8, 0.0]
    """

    homogeneous = False
    sparse = True

    def __init__(self, c1: float = 1.0, c2: float = 1.0):
        self.c1 = c1
        self.c2 = c2

    def check(self, m: int) -> None:
        for name in ("c1", "c2"):
            if np.ndim(getattr(self, name)):
                raise ValueError(f"{name} must be one positive number for all kernels.")
            per_kernel(getattr(self, name), m, name)

    def value(self, q: np.ndarray) -> float:
        return float(np.sum(np.maximum(np.sqrt(np.maximum(q, 0.0)) - self.c1, 0.0) ** 2)) / (2 * self.c2)

    def weights(self, q: np.ndarray) -> np.ndarray:
        root = np.sqrt(np.maximum(q, 1e-300))
        return np.maximum(1.0 - self.c1 / root, 0.0) / self.c2

    def curvature(self, q: np.ndarray) -> np.ndarray:
        root = np.sqrt(np.maximum(q, 0.0))
        kept = root > self.c1
        return np.diag(np.where(kept, 0.5 * self.c1 / (self.c2 * np.where(kept, root, 1.0) ** 3), 0.0))

    def norm(self, u: np.ndarray) -> float:
        return self.c1 * float(u.sum()) + 0.5 * self.c2 * float(u @ u)

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        return u / (self.c1 + self.c2 * u)

    def block_prices(self) -> tuple[float, float]:
        return float(self.c1), float(self.c2)

    def restrict(self, index: np.ndarray, m: int) -> ElasticNet:
        return self

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.elastic_net, np.array([self.c1, self.c2], dtype=float)


class Group(MixingPenalty):
    """Kernels in groups, one norm inside a group and another between groups.

    The weights satisfy ``|| (||w_g||_within)_g ||_between <= 1``.

    Parameters
    ----------
    groups : sequence of length m, optional
        Group of each kernel, any hashable labels. By default the groups that the kernels themselves have, such as the
        views they look at; a kernel without one is a group of its own.
    within, between : float, default=inf and 1.2
        Greater than 1. ``within=inf`` treats the kernels of a group alike; ``between`` near 1 makes few groups count.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import Group
    >>> Group(["a", "a", "b"], within=np.inf, between=2).weights(np.array([1.0, 2.0, 4.0])).round(6).tolist()
    [0.6, 0.6, 0.8]
    """

    def __init__(self, groups: Any = None, within: float = np.inf, between: float = 1.2):
        self.groups = groups
        self.within = within
        self.between = between

    def grouped(self, groups: Sequence[Any]) -> Group:
        if self.groups is not None or not any(group is not None for group in groups):
            return self
        own = [k if group is None else group for k, group in enumerate(groups)]
        return Group(own, self.within, self.between)

    def check(self, m: int) -> None:
        if self.groups is None:
            raise ValueError(
                "Group has no groups, and no kernel is in one: give groups=, a label for each kernel, or make the "
                "kernels with kernels.views or with group=."
            )
        if not hasattr(self.groups, "__len__") or isinstance(self.groups, str):
            raise ValueError(f"groups must be a sequence of one label for each kernel, got {self.groups!r}.")
        if len(self.groups) != m:
            raise ValueError(f"groups names {len(self.groups)} kernels but there are {m}: give one label each.")
        for name in ("within", "between"):
            _check_p(getattr(self, name), name, "values close to 1, such as 1.05, come near selection.")

    def _codes(self) -> tuple[np.ndarray, int]:
        places: dict[Any, int] = {}
        codes = [places.setdefault(label, len(places)) for label in self.groups]
        return np.array(codes), len(places)

    def _gather(self, x: np.ndarray, p: float) -> np.ndarray:
        """Return the p-norm of ``x`` in each group."""
        codes, count = self._codes()
        return np.array([lp_norm(x[codes == g], p) for g in range(count)])

    def _compose(self, x: np.ndarray, inner: float, between: float, powers: tuple[float, float]) -> np.ndarray:
        """Return weights built from group norms and, inside each group, from its members."""
        codes, count = self._codes()
        outer = _on_sphere(self._gather(x, inner), powers[0], between)
        w = np.empty(x.size)
        for g in range(count):
            w[codes == g] = outer[g] * _on_sphere(x[codes == g], powers[1], self.within)
        return w

    def value(self, q: np.ndarray) -> float:
        norms = self._gather(np.maximum(q, 0.0), _conjugate(self.within))
        return 0.5 * lp_norm(norms, _conjugate(self.between))

    def weights(self, q: np.ndarray) -> np.ndarray:
        outer, inner = (_conjugate(p) - 1.0 for p in (self.between, self.within))
        return self._compose(positive_energies(q), _conjugate(self.within), self.between, (outer, inner))

    def curvature(self, q: np.ndarray) -> np.ndarray:
        codes, _ = self._codes()
        outer, inner = (_conjugate(p) - 1.0 for p in (self.between, self.within))
        q = np.maximum(positive_energies(q), FAINT * positive_energies(q).max())
        w, norms = self.weights(q), self._gather(q, inner + 1.0)
        share = (q / norms[codes]) ** inner / norms[codes]
        mates = np.where(codes[:, None] == codes, share, 0.0)
        log_slope = inner * np.diag(1.0 / q) + (outer - inner) * mates - outer * w / lp_norm(norms, outer + 1.0)
        return w[:, None] * log_slope

    def norm(self, u: np.ndarray) -> float:
        return 0.5 * square(lp_norm(self._gather(u, _block_power(self.within)), _block_power(self.between)))

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        powers = (_norm_power(self.between), _norm_power(self.within))
        return self._compose(positive_energies(u), _block_power(self.within), self.between, powers)

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        codes, count = self._codes()
        head = [_conjugate(self.within), _conjugate(self.between), float(count)]
        return rules.group, np.concatenate([head, codes.astype(float)])
