"""Precomputed kernels that samples may lack: rows and columns of NaN, with means in their place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .targets import Targets


@dataclass(frozen=True)
class AbsentRows:
    """What stands for samples that lack a precomputed kernel: the mean of the training samples that have it."""

    share: np.ndarray  # (n, m) how much each training row counts among those that have a kernel, 0 for the others
    means: np.ndarray  # (n, m) of each kernel between a training row and those that have it

    @classmethod
    def of(
        cls,
        stack: np.ndarray,  # (r, r, m) filled
        has: np.ndarray,  # (r, m)
        targets: Targets,
    ) -> AbsentRows:
        """Return what new samples need to know of the training samples."""
        share, means = np.zeros((targets.n_rows, has.shape[1])), np.zeros((targets.n_rows, has.shape[1]))
        share[targets.rows] = _shares(has, targets.weight)
        means[targets.rows] = np.einsum("ijk,jk->ik", stack, share[targets.rows])
        return cls(share, means)

    def filled(
        self,
        kernel: np.ndarray,  # (t, n) between new samples and all training rows
        k: int,
    ) -> np.ndarray:  # (t, n)
        """Return a kernel with means where the new sample or the training sample lacks it."""
        share, here = self.share[:, k], self.share[:, k] > 0
        holes = np.isnan(kernel[:, here])
        lacking = holes.all(axis=1)
        _refuse_torn(np.flatnonzero(holes.any(axis=1) & ~lacking), f"kernel {k}")
        known = kernel[~lacking][:, here]
        out = np.empty(kernel.shape, dtype=kernel.dtype)
        out[np.ix_(~lacking, here)] = known
        out[np.ix_(~lacking, ~here)] = (known @ share[here].astype(kernel.dtype))[:, None]
        out[lacking] = self.means[:, k]
        return out


def fill_absent(
    stack: np.ndarray,  # (n, n, m)
    names: list[str],
    weight: np.ndarray,  # (n,)
) -> np.ndarray:  # (n, m)
    """Put means where samples lack a kernel, in place, and return which samples have which kernel.

    In the space of the kernel's features, such a sample is the mean of those that have it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble.absent import fill_absent
    >>> stack = np.array([[1.0, 3.0, np.nan], [3.0, 9.0, np.nan], [np.nan, np.nan, np.nan]])[:, :, None]
    >>> fill_absent(stack, ["a"], np.ones(3)).ravel().tolist()
    [True, True, False]
    >>> stack[:, :, 0].tolist()
    [[1.0, 3.0, 2.0], [3.0, 9.0, 6.0], [2.0, 6.0, 4.0]]
    """
    has = ~np.isnan(np.einsum("iik->ik", stack))
    for k, here in enumerate(has.T):
        if not here.any():
            raise ValueError(f"No sample has {names[k]}, which is NaN on all of its diagonal: drop that kernel.")
        kernel = stack[:, :, k]
        if here.all() and not np.isnan(kernel).any():
            continue
        torn = np.isnan(kernel) != ~(here[:, None] & here)
        _refuse_torn(np.flatnonzero(torn.any(axis=1)), names[k])
        share = _shares(here, weight)
        means = np.where(here[:, None] & here, kernel, 0.0) @ share
        means[~here] = share @ means
        kernel[~here] = means
        kernel[:, ~here] = means[:, None]
    return has


def _shares(has: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return how much each sample counts among those that have a kernel."""
    counts = (weight * has.T).T
    return counts / counts.sum(axis=0)


def _refuse_torn(rows: np.ndarray, name: str) -> None:
    if rows.size:
        raise ValueError(
            f"{name} is NaN in some, not all, entries of {rows.size} samples such as number {rows[0]}: "
            "missing='absent' is for samples that lack a kernel altogether, whose row and column are NaN."
        )
