"""Sizes of kernels by what they can fit: a kernel that is nearly the identity fits any labels at little cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import to_host
from ..grams import BasisGram, CombinableGram, DenseGram, GramStack, LowRankGram, TensorGram

LOOK = 500  # samples on which a kernel is looked at, at most
SPECTRUM = 300  # the same where its eigenvalues are computed
LEAST = 0.01  # share of the trace that a tail counts as, at least


class Complexity(BaseEstimator, ABC):
    """A number that says how much a kernel of mean diagonal 1 can fit; kernels are divided by it.

    Divided, kernels have a mean diagonal of 1 on average, so that C keeps its meaning.
    """

    _look: ClassVar[int] = LOOK

    @abstractmethod
    def of(
        self,
        kernel: np.ndarray,  # (b, b)
        share: np.ndarray,  # (b,) sums to 1
        n: int,
    ) -> float:
        """Return the complexity of a kernel on ``n`` samples, of which some are seen, each with its share."""

    def check(self) -> None:
        """Refuse parameters that make no sense."""

    def factors(self, gram: GramStack, weight: Any) -> np.ndarray:  # (m,)
        """Return what each kernel is multiplied by; samples count by their weight."""
        sizes = self.sizes(gram, weight)
        return sizes.size * (1.0 / sizes) / np.sum(1.0 / sizes)

    def sizes(self, gram: GramStack, weight: Any) -> np.ndarray:  # (m,)
        """Return the complexity of each kernel."""
        n, m = gram.shape
        rows = np.unique(np.linspace(0, n - 1, min(n, self._look)).round().astype(np.int64))
        share = to_host(weight)[rows].astype(float)
        share = share / share.sum()
        sizes = np.empty(m)
        for k, kernel in enumerate(each_on_host(gram, rows)):
            sizes[k] = self.of(kernel / max(float(share @ np.diag(kernel)), 1e-300), share, n)
        return sizes


class EffectiveDimension(Complexity):
    """Divide each kernel by a power of ``(tr K)^2 / |K|^2``, of the centred kernel: how many directions it has.

    It is 1 for a kernel of rank one and about the number of samples for one that is nearly the identity.

    Parameters
    ----------
    power : float, default=1.0
        0 leaves kernels as they are, 1 makes those with many directions as dear as they have directions.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(8), np.outer(*2 * [[1.0, -1.0] * 4])], axis=2))
    >>> kw.EffectiveDimension().factors(gram, np.ones(8)).round(3).tolist()
    [0.25, 1.75]
    """

    def __init__(self, power: Any = 1.0):
        self.power = power

    def check(self) -> None:
        if isinstance(self.power, bool) or not isinstance(self.power, Real) or not 0 <= float(self.power) < np.inf:
            raise ValueError(f"power must be a number from 0 on; got {self.power!r}.")

    def of(self, kernel: np.ndarray, share: np.ndarray, n: int) -> float:
        """Off the diagonal, the samples seen stand for the others too."""
        means = kernel @ share
        centred = kernel - means[:, None] - means + share @ means
        trace, norm = float(share @ np.diag(centred)), float(share @ centred**2 @ share)
        if share.size < n:
            same = float(share @ share)  # the part of the pairs seen that are a sample and itself
            own = float(share @ np.diag(centred) ** 2)
            others = max(norm - float(share**2 @ np.diag(centred) ** 2), 0.0) / (1.0 - same)
            norm = own * same * share.size / n + others * (1.0 - same * share.size / n)
        return max(trace**2 / norm if norm > 1e-300 else 1.0, 1.0) ** float(self.power)


class TailSum(Complexity):
    """Divide each kernel by the sum of its eigenvalues after the largest few, as conv-MKL does.

    Cortes, Kloft and Mohri (2013): what a kernel can fit beyond a few directions is governed by this tail.

    Parameters
    ----------
    keep : int, default=10
        Eigenvalues that are left out of the sum. Where less than a hundredth of the trace is left, it counts as that.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(8), np.diag([7.0, 1, 0, 0, 0, 0, 0, 0])], axis=2))
    >>> kw.TailSum(keep=1).factors(gram, np.ones(8)).round(3).tolist()
    [0.25, 1.75]
    """

    _look = SPECTRUM

    def __init__(self, keep: int = 10):
        self.keep = keep

    def check(self) -> None:
        if isinstance(self.keep, bool) or not isinstance(self.keep, int | np.integer) or self.keep < 0:
            raise ValueError(f"keep must be a whole number from 0 on; got {self.keep!r}.")

    def of(self, kernel: np.ndarray, share: np.ndarray, n: int) -> float:
        root = np.sqrt(share)
        values = np.linalg.eigvalsh(kernel * root[:, None] * root)[::-1]
        return max(float(values[int(self.keep) :].sum()), LEAST)


def each_on_host(gram: GramStack, rows: np.ndarray) -> Iterator[np.ndarray]:  # (b, b)
    """Yield every kernel between some samples, of NumPy."""
    few: Any = gram
    if not isinstance(gram, DenseGram):
        few, rows = gram.take(rows), np.arange(rows.size)
    if isinstance(few, LowRankGram | BasisGram | TensorGram):
        few = few.to_host()
    assert isinstance(few, CombinableGram)
    for only in np.eye(gram.shape[1]):
        yield few.combine(rows, only)


_NAMES = {"dimension": EffectiveDimension, "tail": TailSum}


def read_normalize(normalize: Any) -> tuple[Any, Complexity | None]:
    """Return how kernels are scaled at first, and the complexity that they are then divided by, if any.

    Examples
    --------
    >>> from kernelweave.assemble.complexity import read_normalize
    >>> read_normalize("tail")
    ('trace', TailSum())
    """
    if isinstance(normalize, str) and normalize in _NAMES:
        return "trace", _NAMES[normalize]()
    if isinstance(normalize, Complexity):
        normalize.check()
        return "trace", normalize
    return normalize, None
