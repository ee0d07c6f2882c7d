"""Parts of kernels that are there already: training and test samples of a fold, cut out of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ..arrays import Array, is_foreign, like, namespace, to_host
from ..grams import DenseGram
from ..grams.dense import Room, part_of
from ..kernels import Kernel
from .base import Assembly
from .exact import TensorAssembly, from_tensors
from .factors import FactorAssembly, stored_features
from .parameters import Options
from .products import FactorProductAssembly
from .stacks import KernelAssembly, assembled, diagonal_means, from_samples
from .targets import Targets


class Fold(ABC):
    """Kernels between the training samples of a fold, and between its test samples and them."""

    samples: Any  # what stands for the training samples: as long as they are
    test: Any  # what stands for the test samples

    @abstractmethod
    def scaled(self, options: Options, weight: Array) -> Assembly:
        """Return the kernels on the training samples at the size asked for."""

    def summed(
        self,
        weights: np.ndarray,  # (m,)
    ) -> Fold | None:
        """Return the weighted sum of the kernels as the only one, or None where that is no gain."""
        return None

    def decide(
        self,
        assembly: Assembly,
        targets: Targets,
        weights: np.ndarray,  # (o, m)
        coef: Array,  # (o, n)
    ) -> Array:  # (t, o)
        """Return decision values of the test samples, without a constant."""
        return assembly.predictor(targets, weights, coef, np.zeros(weights.shape[0])).decide(self.test)


@dataclass(frozen=True)
class StoredFold(Fold):
    """Parts of a stack."""

    samples: np.ndarray  # (n, n, m)
    test: np.ndarray  # (t, n, m)
    names: list[str]
    groups: list[str | None]
    prices: np.ndarray | None = None  # (m,) what the weight of each kernel costs
    has: np.ndarray | None = None  # (n, m) which training samples have what each kernel looks at

    def scaled(self, options: Options, weight: np.ndarray) -> KernelAssembly:
        made = assembled(self.samples, self.names, self.groups, [], options, weight, owned=True, has=self.has)
        return made if self.prices is None else made.rescaled(1.0 / self.prices[made.kept])

    def summed(self, weights: np.ndarray) -> StoredFold:
        dtype = self.samples.dtype
        train, test = ((part @ weights.astype(dtype))[:, :, None] for part in (self.samples, self.test))
        return StoredFold(train, test, ["sum"], [None])

    def decide(self, assembly: Assembly, targets: Targets, weights: np.ndarray, coef: np.ndarray) -> np.ndarray:
        if not isinstance(assembly, KernelAssembly):
            return super().decide(assembly, targets, weights, coef)
        (t, n, m), table = self.test.shape, np.einsum("oj,ok->jko", coef, weights * assembly.scales)
        return self.test.reshape(t, n * m) @ table.reshape(n * m, -1)


@dataclass(frozen=True)
class FactorFold(Fold):
    """Rows of features."""

    samples: Array  # (n, D)
    test: Array  # (t, D)
    made: FactorAssembly
    has: np.ndarray | None = None  # (n, kernels kept) which training samples have what each kernel looks at

    def scaled(self, options: Options, weight: Array) -> FactorAssembly:
        made = replace(self.made, gram=self.made.gram.on(self.samples))
        prices = np.array([made.kernels[k]._price for k in made.kept])
        return made.rescaled(1.0 / (prices * self._sizes(options.normalize, to_host(weight))))

    def _sizes(self, normalize: str | None, weight: np.ndarray) -> np.ndarray:  # (kernels kept,)
        """Return what the features made for all samples are to be divided by, squared, prices aside."""
        if normalize not in ("trace", "center"):
            return self.made.scales[self.made.kept]
        gram, share = self.made.gram.on(self.samples), weight / weight.sum()
        sizes = diagonal_means(to_host(gram.diagonal()), share, self.has)
        if normalize == "center":
            sizes = sizes - to_host(gram.energies(gram.asarray(share)))
        return np.maximum(sizes, 1e-12)  # a kernel that is nothing on these samples stays next to nothing

    def decide(self, assembly: Assembly, targets: Targets, weights: np.ndarray, coef: Array) -> Array:
        if isinstance(assembly, FactorProductAssembly):
            directions, shift, signs = assembly.squares(weights, coef)
            return (self.test @ directions + shift) ** 2 @ signs
        assert isinstance(assembly, FactorAssembly)
        xp, gram = namespace(coef), self.made.gram
        kept = weights[:, assembly.kept] * assembly.factors
        z = gram.on(self.samples).rmatvec(xp.matrix_transpose(coef))
        columns = xp.stack([gram.per_column(row) for row in kept], axis=1)
        return gram.on(self.test).matvec(z * columns)


@dataclass(frozen=True)
class SampleFold(Fold):
    """Rows of samples, for kernels that are not stored: they are computed anew."""

    samples: Any  # (n, d)
    test: Any  # (t, d)
    kernels: list[Kernel]

    def scaled(self, options: Options, weight: Array) -> Assembly:
        make = from_tensors if is_foreign(self.samples) else from_samples
        return make(self.samples, self.kernels, replace(options, missing="refuse"), weight=weight)


def fold_of(made: Assembly, train: np.ndarray, test: np.ndarray, room: Room | None = None) -> Fold:
    """Return a fold of kernels on all samples, by positions among these; in ``room`` until the next one is made there.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import Options, from_samples
    >>> from kernelweave.assemble.folds import fold_of
    >>> made = from_samples(np.eye(4), ["linear", "rbf"], Options(), weight=np.ones(4))
    >>> fold_of(made, np.array([0, 1, 2]), np.array([3])).test.shape
    (1, 3, 2)
    """
    if isinstance(made, FactorAssembly):
        V = stored_features(made.gram, "cross-validation on kernels that are computed once")
        one, other = (namespace(V).take(V, _positions(V, part), axis=0) for part in (train, test))
        return FactorFold(one, other, made, None if made.has is None else made.has[np.ix_(train, made.kept)])
    if isinstance(made, TensorAssembly):
        kernels = [made.kernels[k] for k in made.kept]
        return SampleFold(rows_of(made.X, train), rows_of(made.X, test), kernels)
    assert isinstance(made, KernelAssembly)
    if isinstance(made.gram, DenseGram):
        stack, names = made.gram.stack, [made.names[k] for k in made.kept]
        groups = [made.groups[k] for k in made.kept]
        prices = None if made.kernels is None else np.array([made.kernels[k]._price for k in made.kept])
        has = None if made.has is None else made.has[np.ix_(train, made.kept)]
        parts = part_of(stack, train, train, room), part_of(stack, test, train)
        return StoredFold(*parts, names, groups, prices, has)
    assert made.kernels is not None
    return SampleFold(made.X[train], made.X[test], [made.kernels[k] for k in made.kept])


def _positions(V: Array, rows: np.ndarray) -> Array:
    return like(V, rows, "int64") if is_foreign(V) else rows


def rows_of(values: Any, rows: np.ndarray) -> Any:
    """Return some entries of targets or weights of any kind, or of an array, by position."""
    if is_foreign(values):
        return namespace(values).take(values, like(values, rows, "int64"), axis=0)
    return values[rows] if isinstance(values, np.ndarray) else _safe_indexing(values, rows)
