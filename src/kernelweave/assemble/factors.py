"""Kernels on the training samples as features of low rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from ..arrays import Array, device_of, dtype_name, is_foreign, like, namespace
from ..chunks import Chunks
from ..grams import Approximation, BasisGram, FactorGram, GramStack, LowRankGram
from ..kernels import Kernel
from ..kernels.missing import presence
from .base import Assembly, say_dropped
from .expansion import finite
from .memory import allowed_features
from .parameters import Options
from .stacks import resolve_bank
from .targets import Targets


def described(approximation: Approximation) -> str:
    """Write an approximation as a phrase.

    Examples
    --------
    >>> from kernelweave import Nystroem
    >>> from kernelweave.assemble import described
    >>> described(Nystroem(rank=50))
    'Nystroem, rank 50, landmarks uniform'
    """
    words = {name: value for name, value in approximation.get_params().items() if isinstance(value, (int, float, str))}
    order = sorted(words, key=lambda name: name != "rank")
    return ", ".join([type(approximation).__name__, *(f"{name} {words[name]}" for name in order)])


@dataclass(frozen=True)
class FactorAssembly(Assembly):
    """Kernels on the training samples as features, side by side."""

    gram: FactorGram
    maps: Any  # from samples to features
    approximation: Approximation
    like: Array  # an empty array where the samples are
    kernels: list[Kernel]  # (m,) resolved
    factors: Any = 1.0  # (kernels kept,) what the features were multiplied by after they were made, squared
    has: np.ndarray | None = None  # (n, m) which samples have what each kernel looks at; None if all have everything

    def rescaled(self, factors: np.ndarray) -> FactorAssembly:
        if not isinstance(self.gram, BasisGram):
            stored_features(self.gram, "normalize='dimension' or 'tail'")
        gram = self.gram.rescaled(factors)
        return replace(self, gram=gram, scales=self._rescaled_scales(factors), factors=self.factors * factors)

    @property
    def storage(self) -> str:
        m, D = self.gram.ranks.size, self.gram.columns
        kernels = f"{m} kernel{'s' * (m != 1)}, {D} columns"
        kind = dtype_name(self.like) + (" summed in float64" if self.gram.costly else "")
        return f"low rank {kind}, {kernels}, {self.gram.holding} ({described(self.approximation)})"

    @property
    def bank(self) -> list[Kernel]:
        return self.kernels

    def check_energies(self, gram: GramStack, beta: Array) -> None:
        """Features are positive semidefinite by construction: there is nothing to refuse."""

    def predictor(self, targets: Targets, weights: np.ndarray, coef: Array, intercept: np.ndarray) -> FactorExpansion:
        kept = weights[:, self.kept] * np.sqrt(self.factors)
        columns = np.repeat(kept.T, self.gram.ranks, axis=0)  # (D, n_outputs)
        z = self.gram.rmatvec(namespace(coef).matrix_transpose(coef)) * like(coef, columns)
        shape = (targets.n_rows, len(self.names))
        return FactorExpansion(self.maps.predictor(z), like(coef, intercept), self.like, shape, self.kept)


@dataclass(frozen=True)
class FactorExpansion:
    """What prediction needs: the maps of kernels with weight, and one number for each of their columns."""

    linear: Any  # decide(X) -> (n, n_outputs)
    intercept: Array  # (n_outputs,)
    like: Array  # of the library, device and precision that new samples must have
    shape: tuple[int, int]
    kept: np.ndarray  # positions among all kernels of those with features
    degree: ClassVar[int] = 1

    def decide(self, X: Any) -> Array:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return finite(self.linear.decide(X) + self.intercept)

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> Array:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        return finite(self.linear.shares(X, owner[self.kept], parts))


def stored_features(gram: FactorGram, what: str) -> Array:
    """Return features that are held in one array, or refuse what needs them so."""
    if isinstance(gram.basis, LowRankGram):
        return gram.basis.features
    raise ValueError(
        f"{what} needs features that are held in memory, and these are {gram.holding}: use fewer samples, a smaller "
        "rank or a larger memory=, or do without."
    )


def from_factors(
    X: Any,  # (n, d)
    kernels: Any,
    options: Options,
    *,
    weight: Array,  # (n,)
    names: Sequence[str] | None = None,  # (d,)
    frame: Any = None,
    views: Mapping[str, tuple[int, ...]] | None = None,
    progress: bool = False,
    whole: bool = False,
) -> FactorAssembly:
    """Compute features of kernels on samples.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d), or Chunks
        Checked samples, of any library; their precision and device are those of the features. Where they come in
        chunks, what kernels look up in the data is looked up in a sample of the rows.
    kernels : what `kernelweave.kernels.as_kernels` takes
        The bank.
    options : Options
        Scaling, definiteness, memory, and the approximation that makes the features.
    weight : array of shape (n,)
        Weight of each sample in statistics of the data, where the samples are.
    names : sequence of str, optional
        Names of the columns.
    frame : DataFrame, optional
        What the user passed, for column selectors.
    views : mapping from str to tuple of int, optional
        Columns of each view.
    progress : bool, default=False
        Show a bar.
    whole : bool, default=False
        Whether to keep directions that these samples do not show, for others to come.

    Returns
    -------
    FactorAssembly

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import Nystroem
    >>> from kernelweave.assemble import Options, from_factors
    >>> options = Options(approximation=Nystroem(rank=3))
    >>> made = from_factors(np.eye(3), ["linear", "rbf"], options, weight=np.ones(3))
    >>> made.gram.diagonal().mean(axis=0)
    array([1., 1.])
    """
    assert options.approximation is not None
    if isinstance(X, Chunks):
        bank = resolve_bank(X.sample, kernels, options, weight[X.places], names, frame, views)
    else:
        bank = resolve_bank(X, kernels, options, weight, names, frame, views)
    labels, groups = [kernel.name for kernel in bank], [kernel.group for kernel in bank]
    _check_definite(bank, options)
    made = options.approximation.factorise(
        bank,
        X,
        share=weight / namespace(weight).sum(weight),
        normalize=options.normalize,
        random_state=options.random_state,
        memory=allowed_features(X, options.memory),
        progress=progress,
        whole=whole,
    )
    say_dropped(labels, made.scales, options.normalize)
    lost = None if options.approximation.exact else made.lost
    return FactorAssembly(
        made.gram,
        labels,
        groups,
        made.kept,
        made.scales,
        lost,
        made.maps,
        options.approximation,
        empty_like(X),
        bank,
        has=presence(bank, X),
    )


def _check_definite(bank: list[Kernel], options: Options) -> None:
    """Refuse kernels not known to be positive semidefinite: there is no matrix to look at."""
    doubtful = [kernel.name for kernel in bank if not kernel.psd]
    if doubtful and options.psd == "check":
        raise ValueError(
            f"{doubtful[0]} is not known to be positive semidefinite, and an approximation has no matrix to check: use "
            "psd='clip' to keep the positive part only, or psd='trust' if you know it is."
        )


def empty_like(X: Any) -> Array:
    """Return an array without entries, of the library, device and precision of samples."""
    if issparse(X) or isinstance(X, Chunks):
        return np.empty(0, dtype=X.dtype)
    return namespace(X).empty(0, dtype=X.dtype, device=device_of(X)) if is_foreign(X) else np.empty(0, dtype=X.dtype)
