"""Products of kernels at the door: the kernel that is 1 everywhere, and prediction by squares of weighted sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import block_diag

from ..arrays import readable
from ..grams import FactorProducts, GramStack, ProductGram, products_for
from ..grams.factorproducts import check_degree
from ..kernels import Kernel
from ..penalties import MixingPenalty
from .base import Assembly
from .expansion import Expansion, decided
from .factors import FactorAssembly, stored_features
from .memory import check_products_memory
from .parameters import Options
from .stacks import KernelAssembly
from .targets import Targets

UNITY = "unity"  # name of the kernel that is 1 everywhere


def weighs_products(penalty: Any) -> bool:
    """Whether what is given in the place of a penalty weighs products of kernels."""
    return isinstance(penalty, MixingPenalty) and penalty.products


def check_products(penalty: Any, options: Options) -> None:
    """Refuse products of more than two kernels that are only approximated, before any work is done."""
    if weighs_products(penalty) and options.approximation is not None:
        check_degree(penalty.degree)


def paired(assembly: Assembly, penalty: Any, options: Options) -> Assembly:
    """Return the assembly of what a penalty weighs: the kernels, or products of them."""
    if not weighs_products(penalty):
        return assembly
    if isinstance(assembly, FactorAssembly):
        stored_features(assembly.gram, f"penalty {penalty}")
    names, groups = assembly.names, assembly.groups
    kept, scales, lost = assembly.kept, assembly.scales, assembly.lost
    gram = products_for(assembly.gram, penalty)
    if gram.linear_terms:
        kept, scales = np.append(kept, len(names)), np.append(scales, 1.0)
        names, groups = [*names, UNITY], [*groups, None]
        lost = None if lost is None else np.append(lost, 0.0)
    if isinstance(gram, FactorProducts):
        assert isinstance(assembly, FactorAssembly)
        check_products_memory(gram, options.memory)
        return FactorProductAssembly(gram, names, groups, kept, scales, lost, assembly)
    assert isinstance(assembly, KernelAssembly)
    return ProductAssembly(gram, names, groups, kept, scales, lost, assembly, gram.degree)


@dataclass(frozen=True)
class ProductAssembly(Assembly):
    """Kernels as matrices whose products are weighed; the kernel that is 1 everywhere, if there, is the last."""

    kernels: KernelAssembly
    degree: int

    @property
    def storage(self) -> str:
        return f"{self.kernels.storage}, products not stored"

    @property
    def bank(self) -> Sequence[Kernel] | None:
        return self.kernels.bank

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Refuse an answer along which a kernel shows that it is not positive semidefinite."""
        assert isinstance(gram, ProductGram)
        self.kernels.check_energies(gram.base, beta)

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> ProductExpansion:
        m = len(self.kernels.names)
        expansion = self.kernels.predictor(targets, weights[:, :m], coef, intercept)
        active = expansion.active.tolist()
        bases = {place: self.kernels.bases[k] for place, k in enumerate(active) if k in self.kernels.bases}
        return ProductExpansion(expansion, bases, weights[:, m:].sum(axis=1), self.degree)


@dataclass(frozen=True)
class ProductExpansion:
    """What prediction needs: an expansion whose kernels are added up and raised to a power before they count."""

    kernels: Expansion
    bases: dict[int, np.ndarray]  # positive eigenvectors of each clipped kernel, by its place
    shift: np.ndarray  # (n_outputs,) weight of the kernel that is 1 everywhere
    degree: int

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.kernels.like

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels that a precomputed stack must have."""
        return self.kernels.shape

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.kernels.intercept, self.kernels.rows.size * self.shift.size, self._sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        everything = np.zeros(self.kernels.shape[1], dtype=int)
        parts = zip(self._mixed(X, everything, 1)[:, 0], self.shift, self.kernels.coef.T, strict=True)
        return np.column_stack([(mixed + shift) ** self.degree @ coef for mixed, shift, coef in parts])

    def _mixed(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n_outputs, parts, n, s)
        """Return each problem's weighted sums of the kernels of each part, between new samples and support vectors."""
        mixed = np.zeros((self.shift.size, parts, X.shape[0], self.kernels.rows.size))
        for k, matrix in self.kernels.matrices(X):
            if k in self.bases:
                matrix = (matrix @ self.bases[k]) @ self.bases[k].T
            for p, weight in enumerate(self.kernels.weights[k]):
                mixed[p, owner[self.kernels.active[k]]] += weight * matrix
        return mixed

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values; products are shared evenly among their factors."""
        unity = int(owner[-1]) if owner.size > self.kernels.shape[1] else 0
        return self._shared(X, owner, parts, parts, partial(even_shares, degree=self.degree, unity=unity))

    def joint_shares(
        self, X: Any, owner: np.ndarray, part_of: Callable[[tuple[int, ...]], int], parts: int
    ) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what products of sets of kernels add to the decision values; ``part_of`` names their part."""
        sets = int(owner.max(initial=0)) + 1
        share = partial(joint_shares, degree=self.degree, part_of=part_of, parts=parts)
        return self._shared(X, owner, sets, parts, share)

    def _shared(
        self, X: Any, owner: np.ndarray, sets: int, parts: int, share: Callable[..., np.ndarray]
    ) -> np.ndarray:  # (n, parts, n_outputs)
        """Return the shares of each problem, from the sums of kernels in each set, some rows at a time."""

        def sums(rows: Any) -> np.ndarray:
            problems = zip(self._mixed(rows, owner, sets), self.shift, self.kernels.coef.T, strict=True)
            return np.concatenate([share(mixed, shift, coef[:, None]) for mixed, shift, coef in problems], axis=2)

        width = self.kernels.rows.size * self.shift.size * sets
        return decided(X, np.zeros((parts, self.shift.size)), width, sums)


@dataclass(frozen=True)
class FactorProductAssembly(Assembly):
    """Kernels as features whose products are weighed; the kernel that is 1 everywhere, if there, is the last."""

    gram: FactorProducts
    factors: FactorAssembly

    @property
    def storage(self) -> str:
        return f"{self.factors.storage}, products {readable(self.gram.nbytes)}"

    @property
    def bank(self) -> Sequence[Kernel] | None:
        return self.factors.bank

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Features are positive semidefinite by construction, and so are products: there is nothing to refuse."""

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> FactorProductExpansion:
        directions, shift, signs = self.squares(weights, coef)
        shape, linear = (targets.n_rows, len(self.names)), self.factors.maps.predictor(directions)
        return FactorProductExpansion(linear, shift, signs, intercept, self.factors.like, shape, self.factors.kept)

    def squares(
        self,
        weights: np.ndarray,  # (o, m)
        coef: np.ndarray,  # (o, n)
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # (D, r), (r,), (r, o)
        """Return linear functions of the features as they were made, what is added to them, and signs of their squares.

        The decision values are the sums of these squares.
        """
        forms = [self.gram.form(beta, u) for beta, u in zip(coef, weights[:, self.kept], strict=True)]
        parts = [_directions(form) for form in forms]
        directions, signs = np.hstack([part[0] for part in parts]), block_diag(*[part[1][:, None] for part in parts])
        gram = self.factors.gram
        size = np.repeat(np.broadcast_to(np.sqrt(self.factors.factors), gram.ranks.shape), gram.ranks)
        return directions[: gram.columns] * size[:, None], directions[gram.columns :].sum(axis=0), signs


def _directions(
    form: np.ndarray,  # (D, D)
) -> tuple[np.ndarray, np.ndarray]:  # (D, r), (r,)
    """Return directions g and signs s with ``v' form v = sum_j s_j (g_j'v)^2``; columns without weight stay out."""
    live = np.flatnonzero(form.any(axis=0)) if form.any() else np.arange(1)
    values, vectors = np.linalg.eigh(form[np.ix_(live, live)])
    directions = np.zeros((form.shape[0], live.size))
    directions[live] = vectors * np.sqrt(np.abs(values))
    return directions, np.sign(values)


@dataclass(frozen=True)
class FactorProductExpansion:
    """What prediction needs: each problem's quadratic form of the features, as signed squares of linear functions."""

    linear: Any  # decide(X) -> (n, r) values of the linear functions
    shift: np.ndarray  # (r,) added to them, for the kernel that is 1 everywhere
    signs: np.ndarray  # (r, n_outputs) of their squares, 0 where they are another problem's
    intercept: np.ndarray  # (n_outputs,)
    like: np.ndarray  # of the precision that new samples must have
    shape: tuple[int, int]
    kept: np.ndarray  # positions among all kernels of those with features
    degree: ClassVar[int] = 2

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.intercept, self.shift.size, self._sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        return (self.linear.decide(X) + self.shift) ** 2 @ self.signs

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values; products are shared evenly among their factors."""
        unity = int(owner[-1])
        return self._shared(X, owner, parts, parts, partial(even_shares, degree=2, unity=unity))

    def joint_shares(
        self, X: Any, owner: np.ndarray, part_of: Callable[[tuple[int, ...]], int], parts: int
    ) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what products of sets of kernels add to the decision values; ``part_of`` names their part."""
        sets = int(owner.max(initial=0)) + 1
        return self._shared(X, owner, sets, parts, partial(joint_shares, degree=2, part_of=part_of, parts=parts))

    def _shared(
        self, X: Any, owner: np.ndarray, sets: int, parts: int, share: Callable[..., np.ndarray]
    ) -> np.ndarray:  # (n, parts, n_outputs)
        def sums(rows: Any) -> np.ndarray:
            linear = np.moveaxis(self.linear.shares(rows, owner[self.kept], sets), 1, 0)
            return share(linear, self.shift, self.signs)

        return decided(X, np.zeros((parts, self.intercept.size)), self.shift.size * sets, sums)


def even_shares(
    sums: np.ndarray,  # (parts, n, s) of the kernels in each part
    shift: Any,  # of the kernel that is 1 everywhere: one number, or (s,)
    coef: np.ndarray,  # (s, n_outputs)
    degree: int,
    unity: int,
) -> np.ndarray:  # (n, parts, n_outputs)
    """Return the terms of ``(sum of all sums + shift)^degree @ coef``, each shared evenly among the sums in it.

    With S the sum of all, ``(S + c)^d - c^d`` is S times ``(S + c)^(d-1) + (S + c)^(d-2) c + .. + c^(d-1)``, and S is
    the sum of the parts; the constant ``c^d`` goes to the part ``unity``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble.products import even_shares
    >>> sums = np.array([[[2.0]], [[3.0]]])
    >>> even_shares(sums, 1.0, np.ones((1, 1)), degree=2, unity=0).ravel().tolist()  # of (2 + 3 + 1)^2
    [15.0, 21.0]
    """
    whole = sums.sum(axis=0) + shift
    slope = sum(whole**power * shift ** (degree - 1 - power) for power in range(degree))
    out = np.moveaxis((sums * slope) @ coef, 0, 1)
    out[:, unity] += np.broadcast_to(shift, coef.shape[:1]) ** degree @ coef
    return out


def joint_shares(
    sums: np.ndarray,  # (sets, n, s) of the kernels in each set; the last one is that of unity, if there is a shift
    shift: Any,  # of the kernel that is 1 everywhere: one number, or (s,)
    coef: np.ndarray,  # (s, n_outputs)
    degree: int,
    part_of: Callable[[tuple[int, ...]], int],
    parts: int,
) -> np.ndarray:  # (n, parts, n_outputs)
    """Return the terms of ``(sum of all sums + shift)^degree @ coef``, each given to the part of its sets as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble.products import joint_shares
    >>> sums = np.array([[[2.0]], [[3.0]]])
    >>> joint_shares(sums, 0.0, np.ones((1, 1)), 2, lambda sets: sum(set(sets)), 2).ravel().tolist()
    [4.0, 21.0]
    """
    out = np.zeros((sums.shape[1], parts, coef.shape[1]))
    sums = np.concatenate([sums[:-1], sums[-1:] + shift])
    for sets in combinations_with_replacement(range(len(sums)), degree):
        ways = factorial(degree) // prod(factorial(count) for count in Counter(sets).values())
        out[:, part_of(sets)] += ways * (np.prod(sums[list(sets)], axis=0) @ coef)
    return out
