"""Gram matrices held in memory, samples first."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import threads
from ..arrays import readable
from .base import EntryGram, support_of
from .rounding import SINGLE, looks_single


def kernels_first(stack: np.ndarray) -> np.ndarray | None:
    """Return kernels (m, n, n) if that is how a stack (n, n, m) lies in memory, without a copy, else None."""
    kernels = np.moveaxis(stack, 2, 0)
    return kernels if kernels.flags.c_contiguous and not stack.flags.c_contiguous else None


class Room:
    """Memory for the parts of a stack that follow one another: fresh pages can cost more than what is written to them.

    A part is there until the next one is made.
    """

    def __init__(self, most: int):
        self.most = most  # entries of one kernel at most
        self.memory = np.empty(0)

    def empty(self, shape: tuple[int, int, int], dtype: np.dtype) -> np.ndarray:
        """Return an array in this memory, with whatever was there."""
        size = int(np.prod(shape))
        if self.memory.dtype != dtype or self.memory.size < size:
            self.memory = np.empty(max(size, self.most * shape[2]), dtype=dtype)
        return self.memory[:size].reshape(shape)


def part_of(
    stack: np.ndarray, rows: np.ndarray, columns: np.ndarray, room: Room | None = None
) -> np.ndarray:  # (r, c, m)
    """Return the kernels between some samples and others, by position, laid out as the stack is."""
    kernels = kernels_first(stack)
    if kernels is not None:
        return np.moveaxis(kernels[:, rows[:, None], columns], 0, 2)
    shape = (rows.size, columns.size, stack.shape[2])
    if room is not None:
        from ..compiled import stacks

        out = room.empty(shape, stack.dtype)
        stacks.cut(stack, rows, columns, out)
        return out
    out = np.empty(shape, dtype=stack.dtype)
    for entries, row in zip(out, rows, strict=True):  # much quicker than all at once
        np.take(stack[row], columns, axis=0, out=entries, mode="clip")  # which leaves out a copy
    return out


class DenseGram(EntryGram):
    """A stored stack: ``stack[i, j, k]`` is kernel k between samples i and j.

    One sample's column of all kernels is contiguous, which is what working-set solvers read; or one kernel after the
    other, as in ``np.moveaxis(kernels, 0, 2)`` of kernels (m, n, n).

    Parameters
    ----------
    stack : ndarray of shape (n, n, m), float32 or float64
        Symmetric in its first two axes. It is read, never changed, and copied only if it is in neither order.
    scale : ndarray of shape (m,), optional
        Each kernel is multiplied by its scale wherever it is used, without a copy.
    rounded : float, optional
        Share of every entry by which single precision may have changed it; by default that of writing entries down, if
        they are numbers of that precision.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram
    >>> DenseGram(np.eye(3)[:, :, None]).energies(np.array([1.0, 2.0, 0.0])).tolist()
    [5.0]
    """

    def __init__(self, stack: np.ndarray, scale: np.ndarray | None = None, rounded: float | None = None):
        if stack.ndim != 3 or stack.shape[0] != stack.shape[1]:
            raise ValueError(f"stack must have shape (n, n, m), samples first; got {stack.shape}.")
        dtype = stack.dtype if stack.dtype in (np.float32, np.float64) else np.float64
        stack = stack.astype(dtype, copy=False)
        self.each = kernels_first(stack)  # (m, n, n) where kernels come one after the other
        self.stack = np.ascontiguousarray(stack) if self.each is None else stack
        self.scale = np.ones(stack.shape[2]) if scale is None else np.ascontiguousarray(scale, dtype=float)
        self._rounded = rounded
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # duals and their products, of the judge's last look
        self.left: list[Any] = []  # copies of entries that solvers left for the next problem on these kernels
        self.factors: list[Any] = []  # of their sum, for equations with other ridges

    @property
    def shape(self) -> tuple[int, int]:
        return self.stack.shape[0], self.stack.shape[2]

    @property
    def storage(self) -> str:
        """How the kernels are stored, as a phrase."""
        return f"dense {self.stack.dtype.name}, {readable(self.stack.nbytes)}"

    @property
    def rounded(self) -> float:
        if self._rounded is None:
            self._rounded = SINGLE if looks_single(self.stack) else 0.0
        return self._rounded

    @property
    def stored(self) -> tuple[np.ndarray, np.ndarray]:
        return self.stack, self.scale

    def energies(self, beta: np.ndarray) -> np.ndarray:
        from ..compiled import stacks

        if beta.ndim == 2:
            return stacks.energies_joint(self.stack, np.ascontiguousarray(beta), support_of(beta)) * self.scale
        known = self._known(beta)
        if known is not None:
            return beta @ known
        support = np.flatnonzero(beta)
        work = support.size**2 // 2 * self.shape[1]
        if self.each is not None:
            part = partial(stacks.energies_of_each, self.each, beta, support)
            return np.concatenate(threads.spread(part, self.shape[1], work)) * self.scale
        pieces = threads.PIECES if work >= threads.LARGE else 1
        edges = np.rint(support.size * (np.arange(pieces + 1) / pieces) ** 0.5).astype(int)  # later rows are longer
        return threads.summed(partial(stacks.energies, self.stack, beta, support), edges, work) * self.scale

    def decision(self, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        from ..compiled import stacks

        scaled = weights * self.scale
        if beta.ndim == 1 and self.each is not None:
            support, active = support_of(beta), np.flatnonzero(scaled)
            return self.weighted_columns(beta[support], support, None, active) @ weights[active]
        product = stacks.decision if beta.ndim == 1 else stacks.decision_joint
        return product(self.stack, np.ascontiguousarray(beta), support_of(beta), scaled, np.flatnonzero(scaled))

    def energies_and_decision(self, beta: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both products of the same duals, each support vector's column read once."""
        if beta.ndim == 2:
            return super().energies_and_decision(beta, weights)
        products = self.products(beta)
        return beta @ products, products @ weights

    def products(self, beta: np.ndarray) -> np.ndarray:
        """Return ``K_k beta`` for every kernel; those of the duals asked for last, with which fits begin, are kept."""
        if beta.ndim == 2:
            return super().products(beta)
        last = self._last
        if last is None or not np.array_equal(last[0], beta):
            self._last = last = beta.copy(), super().products(beta)
        return last[1].copy()

    def _known(self, beta: np.ndarray) -> np.ndarray | None:  # (n, m)
        """Return the products of duals that are those asked for last, or a multiple of them, else None."""
        if self._last is None:
            return None
        last, products = self._last
        most = int(np.argmax(np.abs(last)))
        if last[most] == 0.0:
            return None
        times = float(beta[most] / last[most])
        same = np.all(np.abs(beta - times * last) <= np.finfo(float).eps * np.abs(beta))  # but for one rounding
        return times * products if same else None

    def weighted_columns(
        self,
        delta: np.ndarray,  # (b,) or (b, c)
        index: np.ndarray,  # (b,)
        rows: np.ndarray | None = None,  # (r,)
        kernels: np.ndarray | None = None,  # (a,)
    ) -> np.ndarray:  # (r, a) or (c, r, a)
        """Return ``sum_i delta_i K_k[rows, i]``, reading only the columns ``index``; by default everywhere."""
        from ..compiled import stacks

        n, m = self.shape
        if delta.ndim == 2:
            rows = np.arange(n) if rows is None else rows
            kernels = np.arange(m) if kernels is None else kernels
            columns = stacks.weighted_columns_joint(self.stack, np.ascontiguousarray(delta), index, rows, kernels)
            return columns * self.scale[kernels]
        if self.each is not None:
            return self._columns_of_each(delta, index, rows, kernels)
        if rows is None and kernels is None:
            flat, out = self.stack.reshape(n, n * m), np.empty(n * m)
            threads.spread(partial(stacks.weighted_columns, flat, delta, index, out=out), n * m, index.size * n * m)
            return out.reshape(n, m) * self.scale
        rows = np.arange(n) if rows is None else rows
        kernels = np.arange(m) if kernels is None else kernels
        part = partial(_columns_at, self.stack, delta, index, rows, kernels)
        found = threads.spread(part, rows.size, index.size * rows.size * m)
        return (found[0] if len(found) == 1 else np.concatenate(found)) * self.scale[kernels]

    def _columns_of_each(
        self, delta: np.ndarray, index: np.ndarray, rows: np.ndarray | None, kernels: np.ndarray | None
    ) -> np.ndarray:
        from ..compiled import stacks

        assert self.each is not None
        n, m = self.shape
        rows = np.arange(n) if rows is None else rows
        kernels = np.arange(m) if kernels is None else kernels
        out = np.empty((kernels.size, rows.size))
        work = partial(stacks.columns_of_each, self.each, kernels, np.asarray(delta, dtype=float), index, rows, out=out)
        threads.spread(work, kernels.size, index.size * n * kernels.size)
        return np.multiply(out.T, self.scale[kernels], order="C")

    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return ``sum_k w_k K_k`` between the chosen samples."""
        from ..compiled import stacks

        scaled = weights * self.scale
        return stacks.combine(self.stack, index, scaled, np.flatnonzero(scaled))

    def block(
        self,
        index: np.ndarray,  # (b,)
        kernels: np.ndarray,  # (a,)
    ) -> np.ndarray:  # (b, a, b)
        """Return the chosen kernels between the chosen samples, as float64, kernels in the middle."""
        from ..compiled import stacks

        return stacks.block(self.stack, index, kernels, self.scale)

    def diagonal(self) -> np.ndarray:  # (n, m)
        """Return ``K_k[i, i]``."""
        return np.einsum("iik->ik", self.stack) * self.scale

    def take(self, index: np.ndarray) -> DenseGram:
        """Return the stack of the samples ``index`` only (a copy)."""
        return DenseGram(part_of(self.stack, index, index), self.scale, self._rounded)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None, "left": [], "factors": []}

    def rescaled(self, factors: np.ndarray) -> DenseGram:
        """Return the same stack, not a copy, with each kernel times its factor."""
        return DenseGram(self.stack, self.scale * factors, self._rounded)

    def only(self, kernels: np.ndarray) -> DenseGram:
        """Return the stack of some kernels only (a copy)."""
        return DenseGram(self.stack[:, :, kernels], self.scale[kernels], self._rounded)


def _columns_at(
    stack: np.ndarray,
    delta: np.ndarray,
    index: np.ndarray,
    rows: np.ndarray,
    kernels: np.ndarray,
    first: int,
    last: int,
) -> np.ndarray:
    """Return columns times a step at a range of ``rows``."""
    from ..compiled import stacks

    return stacks.weighted_columns_part(stack, delta, index, rows[first:last], kernels)
