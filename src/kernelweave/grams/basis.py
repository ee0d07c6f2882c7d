"""Kernels that share one basis: ``K_k = Q S_k Q'`` with small cores ``S_k = B_k B_k'``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, device_of, is_numpy, like, lower_root, namespace, to_host
from .base import CombinableGram, FactorGram
from .lowrank import LowRankGram

TABLED = 3  # products with the roots of cores that cost as much as one with cores, and what comes with it
CACHED = 2**17  # entries of the basis that are multiplied at a time where only a number of each row is kept


@dataclass(frozen=True)
class Part:
    """Columns of a basis that some kernels share, and these kernels in it."""

    kernels: np.ndarray  # (a,) their positions
    roots: tuple[np.ndarray, ...]  # (r, rank) of each of them: B_k


class BasisGram(FactorGram, CombinableGram):
    """Kernels that are inner products in one basis, each with a core of its own: ``K_k = Q B_k B_k' Q'``.

    Their features ``V_k = Q B_k`` are never formed. What solvers on features ask for has the length of these features,
    but a product costs one pass over the basis, however many kernels there are, and Newton's systems have the size of
    the basis.

    Parameters
    ----------
    basis : FactorGram
        The basis Q (n, r) as features, however they are held.
    parts : sequence of Part
        Columns of the basis, in order, that kernels on the same columns of the samples share; every kernel is in one.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import BasisGram, LowRankGram
    >>> from kernelweave.grams.basis import Part
    >>> basis = LowRankGram(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ranks=[2])
    >>> gram = BasisGram(basis, [Part(np.arange(2), (np.eye(2), np.ones((2, 1))))])
    >>> gram.energies(np.array([1.0, 0.0, 1.0]))
    array([5., 9.])
    """

    def __init__(self, basis: FactorGram, parts: Sequence[Part]):
        self._basis, self.parts = basis, tuple(parts)
        self._latest: tuple[np.ndarray, Array] | None = None  # weights, and the diagonal of their sum
        self._mean: np.ndarray | None = None  # of the diagonals
        roots = {int(k): root for part in self.parts for k, root in zip(part.kernels, part.roots, strict=True)}
        if sorted(roots) != list(range(len(roots))) or len(roots) != sum(part.kernels.size for part in self.parts):
            raise ValueError("every kernel must be in one of the parts, once.")
        widths = [part.roots[0].shape[0] for part in self.parts]
        if sum(widths) != basis.columns:
            raise ValueError(f"the parts have {sum(widths)} rows, but the basis has {basis.columns} columns.")
        self.ranks = np.array([roots[k].shape[1] for k in range(len(roots))], dtype=np.int64)
        ends = np.cumsum(widths)
        self.slices = [slice(int(end - width), int(end)) for end, width in zip(ends, widths, strict=True)]
        starts = self.starts
        order = [np.arange(starts[k], starts[k] + self.ranks[k]) for part in self.parts for k in part.kernels]
        places = np.concatenate(order)
        self._ordered = bool(np.all(places == np.arange(places.size)))  # whether kernels come part by part
        self._out, self._back = self._positions(places), self._positions(np.argsort(places))

    def _positions(self, index: np.ndarray) -> Array:
        """Return positions as an array beside the basis."""
        beside = self.asarray(np.zeros(1))
        return index if is_numpy(beside) else like(beside, index, "int64")

    @cached_property
    def roots(self) -> list[Array]:  # (r, D) of each part, in the order of its kernels
        """The roots of the cores of each part, side by side, beside the basis."""
        return [self.asarray(np.concatenate(part.roots, axis=1)) for part in self.parts]

    @cached_property
    def _cores(self) -> list[Array]:  # (a, r^2) of each part
        found = []
        for part in self.parts:
            width = part.roots[0].shape[0]
            cores = np.empty((len(part.roots), width, width))
            for root, core in zip(part.roots, cores, strict=True):
                np.dot(root, root.T, out=core)
            found.append(self.asarray(cores.reshape(len(part.roots), -1)))
        return found

    @property
    def basis(self) -> FactorGram:
        return self._basis

    @property
    def costly(self) -> bool:
        return self.basis.costly

    @property
    def holding(self) -> str:
        return self.basis.holding

    @property
    def shape(self) -> tuple[int, int]:
        return self.basis.shape[0], self.ranks.size

    @property
    def columns(self) -> int:
        return self.basis.columns

    @property
    def features(self) -> Array:
        """The basis (n, r), where it is held."""
        assert isinstance(self.basis, LowRankGram)
        return self.basis.features

    @property
    def combinable(self) -> bool:
        return False  # for solvers: each step would cost the basis and the cores of all kernels

    @property
    def host_features(self) -> np.ndarray | None:
        return None  # each kernel's are never formed

    @property
    def on_host(self) -> bool:
        return self.basis.on_host

    def asarray(self, values: Any) -> Array:
        return self.basis.asarray(values)

    def positions(self, index: Any) -> Array:
        """Return positions of samples as an array beside the basis."""
        return self._positions(index) if is_numpy(index) else index

    # -- between the basis and the features of all kernels ---------------------------------------------------

    def fold(
        self,
        x: Array,  # (D,) or (D, c)
    ) -> Array:  # (r,) or (r, c)
        """Return ``B x``: what a combination of the kernels' features is in the basis."""
        xp = namespace(x)
        x = x if self._ordered else xp.take(x, self._out, axis=0)
        if len(self.roots) == 1:
            return self.roots[0] @ x
        ends = np.cumsum([root.shape[1] for root in self.roots]).tolist()
        starts = [0, *ends[:-1]]
        return xp.concat([root @ x[a:b, ...] for root, a, b in zip(self.roots, starts, ends, strict=True)])

    def unfold(
        self,
        z: Array,  # (r,) or (r, c)
    ) -> Array:  # (D,) or (D, c)
        """Return ``B' z``."""
        xp = namespace(z)
        blocks = [xp.matrix_transpose(root) @ z[part, ...] for root, part in zip(self.roots, self.slices, strict=True)]
        found = blocks[0] if len(blocks) == 1 else xp.concat(blocks)
        return found if self._ordered else xp.take(found, self._back, axis=0)

    def outputs(
        self,
        u: Array,  # (D,)
    ) -> Array:  # (r, m)
        """Return ``B_k u_k`` of every kernel."""
        xp, blocks = namespace(u), []
        if is_numpy(u):
            return self._host_outputs(u)
        ends = np.cumsum([root.shape[1] for root in self.roots]).tolist()
        u = u if self._ordered else xp.take(u, self._out, axis=0)
        for place, (root, a, b) in enumerate(zip(self.roots, [0, *ends[:-1]], ends, strict=True)):
            blocks.append((root * u[None, a:b]) @ self._members[place])
        return blocks[0] if len(blocks) == 1 else xp.concat(blocks)

    def _host_outputs(self, u: np.ndarray) -> np.ndarray:  # (D,) -> (r, m)
        """Return the same where every kernel's product is soon done."""
        starts = self.starts
        out = np.zeros((self.ranks.size, self.columns))
        for part, own in zip(self.parts, self.slices, strict=True):
            for k, root in zip(part.kernels.tolist(), part.roots, strict=True):
                np.dot(root, u[starts[k] : starts[k] + self.ranks[k]], out=out[k, own])
        return out.T

    @cached_property
    def _members(self) -> list[Array]:  # (D of a part, m)
        """Which kernel each column of a part's roots belongs to, as ones among zeros."""
        owners = [np.repeat(part.kernels, [root.shape[1] for root in part.roots]) for part in self.parts]
        return [self.asarray(np.eye(self.ranks.size)[owner]) for owner in owners]

    def core(
        self,
        weights: np.ndarray,  # (m,)
    ) -> Array:  # (r, r)
        """Return ``sum_k w_k S_k``."""
        xp = namespace(self._cores[0])
        out = xp.zeros((self.columns,) * 2, dtype=xp.float64, device=device_of(self._cores[0]))
        for part, cores, own in zip(self.parts, self._cores, self.slices, strict=True):
            width = own.stop - own.start
            out[own, own] = xp.reshape(self.asarray(weights[part.kernels]) @ cores, (width, width))
        return out

    @cached_property
    def tabled(self) -> bool:
        """Whether parts of all kernels are had from cores in less time than from some products with their roots."""
        cores = sum(part.roots[0].shape[0] ** 2 * len(part.roots) for part in self.parts)
        roots = sum(root.size for part in self.parts for root in part.roots)
        return self.basis.host_features is not None and cores <= TABLED * roots

    def parts_of(
        self,
        z: np.ndarray,  # (r,)
    ) -> np.ndarray:  # (r, m)
        """Return ``S_k z`` of every kernel, for a basis of NumPy's."""
        out = np.zeros((self.ranks.size, self.columns))
        for part, cores, own in zip(self.parts, self._cores, self.slices, strict=True):
            width = own.stop - own.start
            out[part.kernels, own] = (cores.reshape(-1, width) @ z[own]).reshape(-1, width)
        return out.T

    # -- products ----------------------------------------------------------------------------------------------

    def rmatvec(self, beta: Array) -> Array:
        return self.unfold(self.basis.rmatvec(beta))

    def matvec(self, z: Array) -> Array:
        return self.basis.matvec(self.fold(z))

    def weighted(self, theta: Array, rows: Array | None = None, rough: bool = False) -> Array:
        inner = self.basis.weighted(theta, rows, rough)
        return self.unfold(namespace(inner).matrix_transpose(self.unfold(inner)))

    def mean_diagonal(
        self,
        share: Array | None = None,  # (n,) weights of the samples, which sum to 1
    ) -> np.ndarray:  # (m,)
        """Return the mean of ``K_k[i, i]``."""
        if share is not None:
            return self.summed_diagonal(share)
        if self._mean is None:  # which the judge asks for again and again
            n = self.shape[0]
            self._mean = self.summed_diagonal(self.asarray(np.full(n, 1.0 / n)))
        return self._mean

    def summed_diagonal(self, theta: Array) -> np.ndarray:  # (n,) -> (m,)
        """Return ``sum_i theta_i K_k[i, i]``, from sums over the samples of the size of the basis."""
        rows = namespace(theta).nonzero(theta)[0] if self.basis.host_features is not None else None
        square = self.basis.weighted(theta, rows)
        sums = np.empty(self.ranks.size)
        for part, cores, own in zip(self.parts, self._cores, self.slices, strict=True):
            xp = namespace(cores)
            sums[part.kernels] = to_host(cores @ xp.reshape(square[own, own], (-1,)))
        return sums

    def diagonal_of(self, weights: np.ndarray) -> Array:  # (m,) -> (n,)
        """Return ``sum_k w_k K_k[i, i]``; the judge asks for that of the same weights a few times."""
        latest = self._latest  # held, as another thread may ask for other weights
        if latest is None or not np.array_equal(latest[0], weights):
            self._latest = latest = weights.copy(), self._diagonal_of(lower_root(self.core(weights)))
        return latest[1]

    def _diagonal_of(self, root: Array) -> Array:  # (r, r) -> (n,)
        """Return the squared lengths of the rows of Q, times a matrix."""
        Q = self.basis.host_features
        if Q is None:
            V = self.basis.matvec(root)
            return namespace(V).sum(V**2, axis=1)
        out, step = np.empty(Q.shape[0]), max(1, CACHED // Q.shape[1])
        for start in range(0, Q.shape[0], step):
            V = Q[start : start + step] @ root
            np.einsum("ij,ij->i", V, V, out=out[start : start + step])
        return out

    def diagonal(self) -> Array:  # (n, m)
        """Return ``K_k[i, i]``."""
        found = {}
        for part, own in zip(self.parts, self.slices, strict=True):
            for k, root in zip(part.kernels.tolist(), part.roots, strict=True):
                whole = np.zeros((self.columns, root.shape[1]))
                whole[own] = root
                V = self.basis.matvec(self.asarray(whole))
                found[k] = namespace(V).sum(V**2, axis=1)
        return namespace(found[0]).stack([found[k] for k in range(self.ranks.size)], axis=1)

    def combine(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_k w_k K_k`` between the chosen samples, for a basis of NumPy's."""
        Q = self.features[index].astype(float, copy=False)
        return Q @ self.core(weights) @ Q.T

    def weighted_columns(
        self,
        delta: np.ndarray,  # (b,) or (b, c)
        index: np.ndarray,  # (b,)
        rows: np.ndarray | None = None,  # (r,)
        kernels: np.ndarray | None = None,  # (a,)
    ) -> np.ndarray:  # (r, a) or (c, r, a)
        """Return ``sum_i delta_i K_k[rows, i]``, for a basis of NumPy's; by default everywhere."""
        Q = self.features if rows is None else self.features[rows]
        chosen = np.arange(self.ranks.size) if kernels is None else kernels
        table = delta if delta.ndim == 2 else delta[:, None]
        u = self.unfold(self.features[index].T.astype(float) @ table)
        out = np.stack([Q @ self.outputs(column)[:, chosen] for column in u.T])
        return out if delta.ndim == 2 else out[0]

    def products(self, beta: Array) -> Array:  # (n, m) or (c, n, m)
        """Return ``K_k beta`` for every kernel, where the basis is."""
        u, xp = self.rmatvec(beta), namespace(beta)
        if beta.ndim == 1:
            return self.basis.matvec(self.outputs(u))
        return xp.stack([self.basis.matvec(self.outputs(u[:, c])) for c in range(beta.shape[1])])

    # -- other samples, kernels and sizes ------------------------------------------------------------------------

    def on(self, features: Array) -> BasisGram:
        """Return the same kernels on other samples, given by their rows of the basis."""
        return BasisGram(LowRankGram(features, [features.shape[1]]), self.parts)

    def take(self, index: Any) -> BasisGram:
        """Return the stack of the samples ``index`` only (a copy of the basis)."""
        return BasisGram(self.basis.take(index), self.parts)

    def only(self, kernels: np.ndarray) -> BasisGram:
        """Return the stack of some kernels only; the basis stays as it is."""
        new = {int(k): place for place, k in enumerate(kernels)}
        parts = []
        for part in self.parts:
            own = [place for place, k in enumerate(part.kernels.tolist()) if k in new]
            roots = tuple(part.roots[place] for place in own) or (np.zeros((part.roots[0].shape[0], 0)),)
            parts.append((np.array([new[int(part.kernels[place])] for place in own], dtype=np.int64), roots))
        if any(not kernels.size for kernels, _ in parts) and isinstance(self.basis, LowRankGram):
            return self._without_idle_parts(parts)
        return BasisGram(self.basis, [Part(*part) for part in parts])

    def _without_idle_parts(self, parts: list[tuple[np.ndarray, tuple[np.ndarray, ...]]]) -> BasisGram:
        """Return the stack of parts that have kernels, on their columns of the basis (a copy)."""
        kept = [i for i, (kernels, _) in enumerate(parts) if kernels.size]
        columns = np.concatenate([np.arange(self.slices[i].start, self.slices[i].stop) for i in kept])
        table = namespace(self.features).take(self.features, self._positions(columns), axis=1)
        return BasisGram(LowRankGram(table, [table.shape[1]]), [Part(*parts[i]) for i in kept])

    def rescaled(self, factors: np.ndarray) -> BasisGram:
        """Return the same with each kernel times its factor, on the same basis."""
        if np.all(factors == 1.0):
            return self
        roots = np.sqrt(factors)
        parts = [
            Part(part.kernels, tuple(root * roots[k] for k, root in zip(part.kernels, part.roots, strict=True)))
            for part in self.parts
        ]
        return BasisGram(self.basis, parts)

    def to_host(self) -> BasisGram:
        """Return the same in the computer's own memory."""
        return self if is_numpy(self.features) else self.on(to_host(self.features))
