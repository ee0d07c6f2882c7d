"""The penalty on products of kernels: a nuclear norm on their weights, a spectral norm on their energies."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from .base import MixingPenalty


class SpectralNorm(MixingPenalty):
    """Products of kernels: a weight for each pair, ``sum_ab Z_ab K_a o K_b`` with ``||Z||_* <= 1``.

    The energies are a matrix here, ``M_ab = beta' (K_a o K_b) beta``, and half its largest eigenvalue is the value.
    The best ``Z`` is ``u u'`` with the eigenvector ``u``, so a model has one number per kernel after all: its kernel is
    the elementwise square of ``sum_a u_a K_a``.

    Parameters
    ----------
    linear_terms : bool, default=True
        Add the kernel that is 1 everywhere, so that the square has the kernels themselves among its terms, each with
        the weight ``2 u_0 u_a``; its own ``u_0`` comes last.
    degree : int, default=2
        Kernels in a product; with 3, the kernel is the cube of a weighted sum with ``sum_a u_a^3 <= 1``, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import SpectralNorm
    >>> from kernelweave.grams.energies import Matrix
    >>> SpectralNorm().value(Matrix(np.array([[3.0, 4.0], [4.0, 3.0]])))
    3.5
    """

    smooth = False
    products = True

    def __init__(self, linear_terms: bool = True, degree: int = 2):
        self.linear_terms = linear_terms
        self.degree = degree

    def check(self, m: int) -> None:
        if not isinstance(self.linear_terms, bool | np.bool_):
            raise ValueError(f"linear_terms must be True or False, got {self.linear_terms!r}.")
        degree: Any = self.degree
        if isinstance(degree, bool) or not isinstance(degree, Integral) or int(degree) < 2:
            raise ValueError(f"degree must be a whole number from 2 on, got {self.degree!r}: use penalty='l1' for 1.")

    def value(self, q: Any) -> float:
        return 0.5 * q.top.upper

    def weights(self, q: Any) -> np.ndarray:
        return q.top.weights

    def cost(self, weights: np.ndarray, q: Any) -> Callable[[float], float]:
        size = float(np.sum(weights**self.degree))
        energy = 0.5 * size * max(float(weights @ q.pull(weights)), 0.0)
        return lambda t: t * t * energy
