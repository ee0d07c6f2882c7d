"""Kernels themselves on samples that are tensors: stored where they fit, computed in blocks where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, cast, device_of, dtype_name, free_bytes, like, namespace, to_host
from ..grams import GramStack, TensorGram
from ..grams.factors import refuse_infinite
from ..grams.maps import pieces, take_rows
from ..kernels import Kernel, evaluate
from .base import Assembly, say_dropped
from .expansion import finite
from .memory import available_memory
from .parameters import Options
from .stacks import resolve_bank
from .targets import Targets

SHARE = 0.6  # of the memory left on the device, how much "auto" lets stored kernels take
SUM_SHARE = 0.4  # the same for one weighted sum of kernels


@dataclass(frozen=True)
class TensorAssembly(Assembly):
    """Kernels on the training samples, which are tensors."""

    gram: TensorGram
    kernels: list[Kernel]  # (m,) resolved
    X: Array  # (n, d)

    @property
    def storage(self) -> str:
        return self.gram.storage

    @property
    def bank(self) -> list[Kernel]:
        return self.kernels

    def rescaled(self, factors: np.ndarray) -> TensorAssembly:
        return replace(self, gram=self.gram.rescaled(factors), scales=self._rescaled_scales(factors))

    def check_energies(self, gram: GramStack, beta: Array) -> None:
        """Kernels not known to be positive semidefinite were refused: there is nothing to look at."""

    def predictor(self, targets: Targets, weights: np.ndarray, coef: Array, intercept: np.ndarray) -> TensorExpansion:
        active = np.flatnonzero(weights.any(axis=0))
        support = np.flatnonzero(to_host(namespace(coef).any(coef != 0, axis=0)))
        xp = namespace(coef)
        return TensorExpansion(
            [self.kernels[k] for k in active],
            active,
            take_rows(self.X, support),
            (weights * self.scales)[:, active].T,
            xp.matrix_transpose(xp.take(coef, like(coef, support, "int64"), axis=1)),
            like(coef, intercept),
            (targets.n_rows, len(self.names)),
        )


@dataclass(frozen=True)
class TensorExpansion:
    """What prediction needs: kernels with weight, samples with coefficients, and nothing else."""

    kernels: list[Kernel]  # (a,)
    active: np.ndarray  # (a,) positions among all kernels
    X: Array  # (s, d)
    weights: np.ndarray  # (a, n_outputs) times the kernels' scales
    coef: Array  # (s, n_outputs)
    intercept: Array  # (n_outputs,)
    shape: tuple[int, int]
    degree: ClassVar[int] = 1

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.X

    def decide(self, X: Array) -> Array:  # (n, n_outputs)
        """Return the decision values of new samples."""
        most = int(self.active.max()) + 1 if self.active.size else 1
        return self.shares(X, np.zeros(most, dtype=int), 1)[:, 0, :] + self.intercept

    def shares(self, X: Array, owner: np.ndarray, parts: int) -> Array:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        xp, outputs = namespace(X), self.intercept.shape[0]
        total = xp.zeros((X.shape[0], parts, outputs), dtype=xp.float64, device=device_of(X))
        if not self.active.size or not self.X.shape[0]:
            return total
        for rows, piece in pieces(X, self.X.shape[0]):
            for k, matrix in evaluate(self.kernels, piece, self.X):
                values = (cast(matrix, xp.float64) @ self.coef) * like(self.coef, self.weights[k])
                total[rows, int(owner[self.active[k]]), :] += values
        return finite(total)


def from_tensors(
    X: Array,  # (n, d)
    kernels: Any,
    options: Options,
    *,
    weight: Array,  # (n,)
    names: Sequence[str] | None = None,  # (d,)
    frame: Any = None,
    views: Mapping[str, tuple[int, ...]] | None = None,
) -> TensorAssembly:
    """Compute kernels on samples that are tensors.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked samples, of another library than NumPy; the kernels are there, in their precision.
    kernels : what `kernelweave.kernels.as_kernels` takes
        The bank.
    options : Options
        Scaling, definiteness, memory.
    weight : array of shape (n,)
        Weight of each sample in statistics of the data.
    names : sequence of str, optional
        Names of the columns.
    frame : DataFrame, optional
        What the user passed, for column selectors.
    views : mapping from str to tuple of int, optional
        Columns of each view.

    Returns
    -------
    TensorAssembly

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import Options, from_tensors
    >>> from_tensors(np.eye(3), ["linear", "rbf"], Options(), weight=np.ones(3)).gram.diagonal().mean(axis=0)
    array([1., 1.])
    """
    bank = resolve_bank(X, kernels, options, weight, names, frame, views)
    doubtful = [kernel.name for kernel in bank if not kernel.psd]
    if doubtful and options.psd != "trust":
        raise ValueError(
            f"{doubtful[0]} is not known to be positive semidefinite, which is not looked at for tensors: use "
            "psd='trust' if you know it is, or convert X to NumPy."
        )
    labels, groups = [kernel.name for kernel in bank], [kernel.group for kernel in bank]
    xp, n = namespace(X), X.shape[0]
    share = weight / xp.sum(weight)
    free = free_bytes(X)
    free = available_memory() if free is None else free
    room = SHARE * free if options.memory == "auto" else float(options.memory)
    stored = n * n * len(bank) * np.dtype(dtype_name(X)).itemsize <= room
    mean = np.array([float(share @ cast(kernel.diagonal(X), xp.float64)) for kernel in bank])
    for kernel, size in zip(bank, mean, strict=True):
        if not np.isfinite(size):
            refuse_infinite(kernel)
    gram = TensorGram(bank, X, stored=stored, room=SUM_SHARE * free)
    scales = _scales(gram, mean, share, options.normalize, dtype_name(X)) / [kernel._price for kernel in bank]
    say_dropped(labels, scales, options.normalize)
    kept = np.flatnonzero(scales)
    gram = gram.only(kept).rescaled(scales[kept])
    return TensorAssembly(gram, labels, groups, kept, scales, None, bank, X)


def _scales(gram: TensorGram, mean: np.ndarray, share: Array, normalize: Any, dtype: str) -> np.ndarray:  # (m,)
    """Return the factor that gives each kernel the size asked for; 0 for kernels that have none."""
    size, noise = mean, np.zeros(mean.size)
    if normalize == "center":
        size, noise = mean - gram.energies(share), 100 * np.finfo(dtype).eps * mean
    alive = size > np.maximum(noise, 1e-150)
    if normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)
