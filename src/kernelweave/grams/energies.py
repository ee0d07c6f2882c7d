"""Energies of products of kernels: the largest that weights of length one can have, between two bounds."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

PRECISION = 1e-9  # relative width of the bracket of the largest value at which power iteration ends
MOST = 200  # steps that power iteration may take; the bracket is right whenever it ends
START = 1e-3  # of the even weights: the least in a start, which must be positive
SHIFT = 0.1  # of the largest ratio: keeps eigenvalues near the negative of the largest from staying
FALL, RISE = 0.3, 1.2  # factors of the power of a step where the bound rose and where it fell


class Top(NamedTuple):
    """The largest energy that weights of length one can have, between two bounds, and such weights."""

    lower: float
    upper: float
    weights: np.ndarray  # (m,) not negative, of length 1


class Energies(Protocol):
    """Energies of all products of ``degree`` kernels: a symmetric array without negative entries, known by its pull.

    With ``T_ab..`` the energy of ``K_a o K_b o ..``, weights have the energy ``sum T_ab.. u_a u_b ..``.
    """

    @property
    def degree(self) -> int:
        """How many kernels are in a product."""
        ...

    @property
    def top(self) -> Top:
        """The largest energy of weights of length one."""
        ...

    def pull(self, weights: np.ndarray) -> np.ndarray:  # (m,) -> (m,)
        """Return the energy's derivative by each weight, over the degree: ``sum T_ab.. u_b ..``."""
        ...


def largest(energies: Energies, m: int, start: np.ndarray | None = None) -> Top:
    """Return the largest energy of weights with ``sum_a u_a^degree = 1``, by power iteration.

    A step multiplies the shares ``u_a^degree`` by a power of the ratios ``pull(u)_a / u_a^(degree - 1)``: an ordinary
    one at first, larger ones while they help. For positive u the ratios bound the largest energy from above, which for
    matrices is the theorem of Collatz and Wielandt: with the shares x of any other weights v, the inequality of the
    means gives ``v_a v_b .. <= u_a u_b .. (x_a / u_a^degree + x_b / u_b^degree + ..) / degree``, and summing up gives
    the energy of v at most ``sum_a x_a pull(u)_a / u_a^(degree - 1)``.

    Parameters
    ----------
    energies : Energies
        What is weighed.
    m : int
        How many kernels.
    start : ndarray of shape (m,), optional
        Weights near the ones looked for.

    Returns
    -------
    Top

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams.energies import Matrix, largest
    >>> round(largest(Matrix(np.array([[3.0, 4.0], [4.0, 3.0]])), 2).upper, 6)
    7.0
    """
    degree = energies.degree
    even = np.full(m, m ** (-1.0 / degree))
    u = even if start is None else np.maximum(start, START * even)
    upper, power = np.inf, degree / (degree - 1) / RISE  # the power of the ordinary step, once it has risen
    best = (0.0, even)
    for _ in range(MOST):
        u = np.maximum(u / length(u, degree), 1e-300 ** (1.0 / degree))
        pull = energies.pull(u)
        value, ratios = float(u @ pull), pull / u ** (degree - 1)
        if value <= 0.0:
            return Top(0.0, 0.0, even)
        best = max(best, (value, u), key=lambda found: found[0])
        if ratios.max() <= upper:
            upper, anchor, power = float(ratios.max()), u, RISE * power
            steps = (ratios / upper + SHIFT) / (1.0 + SHIFT)
        else:
            power *= FALL
        if upper - best[0] <= PRECISION * best[0]:
            break
        u = anchor * steps ** (power / degree)
    return Top(best[0], upper, best[1])


def length(weights: np.ndarray, degree: int) -> float:
    """Return ``(sum_a u_a^degree)^(1/degree)``."""
    return float(np.sum(weights**degree)) ** (1.0 / degree)


class Matrix:
    """Energies of pairs of kernels as a stored matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams.energies import Matrix
    >>> Matrix(np.array([[3.0, 4.0], [4.0, 3.0]])).top.upper
    7.0
    """

    def __init__(self, matrix: np.ndarray):  # (m, m)
        self.matrix, self.degree = matrix, 2
        values, vectors = np.linalg.eigh(matrix)
        value = max(float(values[-1]), 0.0)
        self.top = Top(value, value, np.abs(vectors[:, -1]))

    def pull(self, weights: np.ndarray) -> np.ndarray:
        """Return ``M u``."""
        return self.matrix @ weights


class Raised:
    """Energies that may all be larger than they were computed: weights of length one gain at most ``extra``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams.energies import Matrix, Raised
    >>> Raised(Matrix(np.array([[3.0, 4.0], [4.0, 3.0]])), 0.5).top.upper
    7.5
    """

    def __init__(self, computed: Energies, extra: float):
        self.computed, self.degree, self.extra = computed, computed.degree, extra

    @property
    def top(self) -> Top:
        """The largest energy of weights of length one."""
        lower, upper, weights = self.computed.top
        return Top(lower, upper + self.extra, weights)

    def pull(self, weights: np.ndarray) -> np.ndarray:
        """Return the pull by which weights have the largest energy that they may have."""
        return self.computed.pull(weights) + self.extra * weights ** (self.degree - 1)
