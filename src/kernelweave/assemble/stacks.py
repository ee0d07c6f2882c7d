"""Kernels on the training samples: computed or taken, checked, scaled; stored where they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import threads
from ..arrays import is_foreign, kind_of
from ..grams import CachedGram, DenseGram, GramStack
from ..grams.dense import kernels_first, part_of
from ..grams.factors import refuse_infinite
from ..grams.rounding import rounding_of
from ..kernels import Kernel, PreparedKernels, as_kernels, as_precomputed, evaluate
from ..kernels.base import precision
from ..kernels.missing import presence, with_absent
from ..kernels.vector import side_by_side
from ..threads import one_for_blas
from .absent import AbsentRows, fill_absent
from .base import Assembly, say_dropped
from .definite import ASYMMETRY, check_definite, check_symmetric, clip, refuse_indefinite, some_samples
from .expansion import Expansion
from .memory import cache_bytes, check_memory, fits, row_blocks
from .parameters import Options, check_unmasked
from .targets import Targets

NEARLY_CONSTANT = {"float64": 1e-9, "float32": 1e-4}  # share of a kernel that is not constant: too few digits are left
CACHED = np.dtype(np.float32)  # precision in which columns computed on demand are kept


@dataclass(frozen=True)
class KernelAssembly(Assembly):
    """Kernels on the training samples as matrices, stored or computed column by column."""

    gram: DenseGram | CachedGram
    kernels: list[Kernel] | None = None  # (m,) resolved; None for a precomputed stack
    X: Any = None  # (n, d) the rows that count; None for a precomputed stack
    bases: dict[int, np.ndarray] = field(default_factory=dict)  # positive eigenvectors of each clipped kernel
    doubtful: bool = False  # whether definiteness was looked at on some samples only
    has: np.ndarray | None = None  # (n, m) which samples have what each kernel looks at; None if all have everything
    absent: AbsentRows | None = None  # of a precomputed stack whose samples may lack kernels

    @property
    def storage(self) -> str:
        return self.gram.storage + (", definiteness looked at on some samples only" if self.doubtful else "")

    def rescaled(self, factors: np.ndarray) -> KernelAssembly:
        return replace(self, gram=self.gram.rescaled(factors), scales=self._rescaled_scales(factors))

    @property
    def bank(self) -> list[Kernel] | None:
        return self.kernels

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Refuse an answer along which a kernel shows a negative eigenvalue that the check at the door missed."""
        if not self.doubtful:
            return
        least = -ASYMMETRY * float(np.sum(beta**2)) * gram.diagonal().mean(axis=0)
        for k in np.flatnonzero(gram.energies(beta) < least):
            refuse_indefinite(self.names[self.kept[k]])

    def predictor(self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> Expansion:
        active = np.flatnonzero(weights.any(axis=0))
        bases = {place: self.bases[k] for place, k in enumerate(active.tolist()) if k in self.bases}
        support = np.arange(coef.shape[1]) if bases else np.flatnonzero(coef.any(axis=0))
        return Expansion(
            kernels=None if self.kernels is None else [self.kernels[k] for k in active],
            active=active,
            rows=targets.rows[support],
            X=None if self.X is None else self.X[support],
            weights=(weights * self.scales)[:, active].T,
            coef=coef[:, support].T,
            clipped={place: basis @ (basis.T @ coef.T) for place, basis in bases.items()},
            intercept=intercept,
            shape=(targets.n_rows, len(self.names)),
            absent=self.absent,
        )


def from_samples(
    X: Any,  # (n, d)
    kernels: Any,
    options: Options,
    *,
    weight: np.ndarray,  # (n,)
    names: Sequence[str] | None = None,  # (d,)
    frame: Any = None,
    views: Mapping[str, tuple[int, ...]] | None = None,
) -> KernelAssembly:
    """Compute kernels on samples.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Checked samples; their precision is that of the kernels.
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
    KernelAssembly

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import Options, from_samples
    >>> made = from_samples(np.eye(3), ["linear", "rbf"], Options(), weight=np.ones(3))
    >>> made.gram.diagonal().mean(axis=0)
    array([1., 1.])
    """
    bank = resolve_bank(X, kernels, options, weight, names, frame, views)
    shape = (X.shape[0], X.shape[0], len(bank))
    unknown = [k for k, kernel in enumerate(bank) if not kernel.psd]
    if unknown and options.psd == "clip":
        check_memory(shape, precision(X), options.memory)
    if not fits(shape, precision(X), options.memory):
        return _on_demand(X, bank, unknown, options, weight)
    stack = _filled(bank, X)
    labels, groups = [kernel.name for kernel in bank], [kernel.group for kernel in bank]
    _check_functions(stack, labels, unknown)
    has = presence(bank, X)
    return assembled(stack, labels, groups, unknown, options, weight, kernels=bank, X=X, owned=True, has=has)


def diagonal_means(
    diagonal: np.ndarray,  # (n, m)
    share: np.ndarray,  # (n,)
    has: np.ndarray | None,  # (n, m)
) -> np.ndarray:  # (m,)
    """Return the mean diagonal of each kernel, over the samples that have what it looks at; 0 where none has it."""
    if has is None:
        return share @ diagonal
    return share @ np.where(has, diagonal, 0.0) / np.maximum(share @ has, 1e-300)


def _check_functions(stack: np.ndarray, labels: list[str], unknown: list[int]) -> None:
    """Refuse functions of the user that are not symmetric."""
    for k in unknown:
        check_symmetric(stack[:, :, k : k + 1], labels[k : k + 1], "its function")


def _on_demand(X: Any, bank: list[Kernel], unknown: list[int], options: Options, weight: np.ndarray) -> KernelAssembly:
    """Return kernels whose columns are computed when asked for; unknown ones are looked at on some samples."""
    labels, groups = [kernel.name for kernel in bank], [kernel.group for kernel in bank]
    doubtful = bool(unknown) and _check_some(X, [bank[k] for k in unknown], options)
    share, room = weight / weight.sum(), cache_bytes(options.memory)
    has = presence(bank, X)
    mean = diagonal_means(np.stack([_finite_diagonal(kernel, X) for kernel in bank], axis=1), share, has)
    grand = np.zeros(len(bank))
    if options.normalize == "center":
        grand = CachedGram(bank, X, memory=room, dtype=CACHED).energies(share)
    scales = _scales(mean, grand, precision(X), options.normalize) / [kernel._price for kernel in bank]
    say_dropped(labels, scales, options.normalize)
    kept = np.flatnonzero(scales)
    gram = CachedGram([bank[k] for k in kept], X, scales[kept], memory=room, dtype=CACHED)
    return KernelAssembly(gram, labels, groups, kept, scales, None, bank, X, doubtful=doubtful, has=has)


def _finite_diagonal(kernel: Kernel, X: Any) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # told by name
        diagonal = kernel.diagonal(X).astype(float)
    if not np.all(np.isfinite(diagonal)):
        refuse_infinite(kernel)
    return diagonal


def _check_some(X: Any, bank: list[Kernel], options: Options) -> bool:
    """Refuse kernels seen not to be symmetric or, if asked, definite; True if that was not looked at on all samples."""
    labels, everyone = [kernel.name for kernel in bank], list(range(len(bank)))
    some = some_samples(X.shape[0], len(bank), options.random_state)
    stack = _filled(bank, X[some])
    _check_functions(stack, labels, everyone)
    if options.psd == "check":
        check_definite(stack, labels, everyone, options.random_state)
    return options.psd == "check" and some.size < X.shape[0]


def resolve_bank(
    X: Any,
    kernels: Any,
    options: Options,
    weight: Any,
    names: Sequence[str] | None,
    frame: Any,
    views: Mapping[str, tuple[int, ...]] | None = None,
) -> list[Kernel]:
    """Return the concrete kernels that a bank stands for on samples; "auto" is the default bank, on each view."""
    asked = as_kernels(kernels)
    if views and isinstance(kernels, str) and kernels == "auto":
        asked = [kernel.on_columns("views") for kernel in asked]
    if options.normalize == "diagonal":
        asked = [kernel.normalised() for kernel in asked]
    if options.missing == "absent":
        return with_absent(asked, X, weight / weight.sum(), names=names, frame=frame, views=views)
    return [kernel for item in asked for kernel in item.resolve(X, names, frame, weight, views)]


def _filled(bank: list[Kernel], X: Any) -> np.ndarray:  # (n, n, m)
    """Return the kernels stored samples first, computed some rows at a time, on several threads where that is safe."""
    n, m = X.shape[0], len(bank)
    stack = np.empty((n, n, m), dtype=precision(X))
    blocks = list(row_blocks(stack))
    prepared = PreparedKernels(bank, X) if len(blocks) > 1 else None

    def fill(first: int, last: int) -> None:
        buffer = np.empty((m, max(rows.stop - rows.start for rows in blocks), n), dtype=stack.dtype)
        for rows in blocks[first:last]:
            block = buffer[:, : rows.stop - rows.start]
            with np.errstate(over="ignore", invalid="ignore"):  # told by name below
                for k, matrix in evaluate(bank, X) if prepared is None else prepared(X[rows]):
                    block[k] = matrix
            _check_computed(block, bank)
            stack[rows] = np.moveaxis(block, 0, 2)

    if side_by_side(bank):
        with one_for_blas():
            threads.spread(fill, len(blocks), stack.size, step=1)
    else:
        fill(0, len(blocks))
    return stack


def _check_computed(block: np.ndarray, bank: list[Kernel]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(block.sum(axis=(1, 2))))
    for k in suspects:
        if not np.all(np.isfinite(block[k])):
            refuse_infinite(bank[k])


def from_stack(stack: np.ndarray, options: Options, targets: Targets, kernels: Any = "precomputed") -> KernelAssembly:
    """Take kernels that were computed beforehand.

    Parameters
    ----------
    stack : array of shape (n, n, m)
        As `read_stack` returns it; used in place unless rows or kernels are left out of it.
    options : Options
        Scaling, definiteness, memory.
    targets : Targets
        Which rows count, and how much.
    kernels : "precomputed", or what `kernelweave.kernels.precomputed` returned
        Names and groups of the kernels.

    Returns
    -------
    KernelAssembly
    """
    if options.normalize == "diagonal":
        raise ValueError(
            "normalize='diagonal' is not possible for precomputed kernels, since X holds no k(x, x) of new "
            "samples: normalise the kernels before stacking them, or use normalize='trace'."
        )
    given = as_precomputed(kernels)
    assert given is not None
    labels, groups = given.read(stack.shape[2])
    owned = targets.rows.size < stack.shape[0]
    if options.missing == "absent":
        stack = part_of(stack, targets.rows, targets.rows) if owned else stack
        return _with_gaps(stack, labels, groups, options, targets, owned)
    check_symmetric(stack, labels, "X")
    if owned:
        stack = part_of(stack, targets.rows, targets.rows)
    return assembled(stack, labels, groups, list(range(stack.shape[2])), options, targets.weight, owned=owned)


def _with_gaps(
    stack: np.ndarray, names: list[str], groups: list[str | None], options: Options, targets: Targets, owned: bool
) -> KernelAssembly:
    """Take a stack in which samples may lack kernels; ``stack`` holds the rows that count."""
    if not owned and np.isnan(np.einsum("iik->ik", stack)).any():
        check_memory(stack.shape, stack.dtype, options.memory)
        stack, owned = stack.copy(), True
    has = fill_absent(stack, names, targets.weight)
    check_symmetric(stack, names, "X")
    made = assembled(stack, names, groups, list(range(len(names))), options, targets.weight, owned=owned, has=has)
    return replace(made, absent=AbsentRows.of(stack, has, targets))


def read_stack(X: Any, memory: Any = "auto") -> np.ndarray:
    """Return a precomputed stack as an array of float32 or float64, or say what is wrong with its shape.

    It is copied, if ``memory`` allows, only where neither samples nor kernels are first in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_stack
    >>> read_stack(np.ones((2, 2, 3), dtype=int)).dtype
    dtype('float64')
    """
    stack = real_array(X)
    if stack.ndim != 3:
        raise ValueError(
            f"X must be a stack of kernels of shape (n, n, m), samples first, for kernels='precomputed'; "
            f"got the shape {stack.shape}: np.stack([K1, K2], axis=2) makes one."
        )
    n, columns, m = stack.shape
    if n != columns:
        hint = ": it looks kernels-first, np.moveaxis(X, 0, 2) puts it right" if columns == m else ""
        raise ValueError(f"X must be square in its first two axes, (n, n, m); got {stack.shape}{hint}.")
    if not n or not m:
        raise ValueError(f"X has 0 samples or kernels, its shape is {stack.shape}: give at least one of each.")
    if stack.flags.c_contiguous or kernels_first(stack) is not None:
        return stack
    check_memory(stack.shape, stack.dtype, memory)
    return np.ascontiguousarray(stack)


def real_array(X: Any) -> np.ndarray:
    """Return X as an array of float32 or float64, without a copy if it is one."""
    if is_foreign(X):
        raise TypeError(f"X must be a NumPy array for kernels='precomputed'; got a {kind_of(X)}: convert it first.")
    check_unmasked("X", X)
    array = np.asarray(X)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"X must hold real numbers for kernels='precomputed'; got an array of {array.dtype}.")
    return array.astype(np.float64)


def assembled(
    stack: np.ndarray,
    names: list[str],
    groups: list[str | None],
    unknown: list[int],
    options: Options,
    weight: np.ndarray,
    *,
    kernels: list[Kernel] | None = None,
    X: Any = None,
    owned: bool,
    has: np.ndarray | None = None,
) -> KernelAssembly:
    """Settle definiteness and scale, and leave zero kernels out."""
    bases: dict[int, np.ndarray] = {}
    doubtful = False
    if options.psd == "check":
        doubtful = check_definite(stack, names, unknown, options.random_state)
    elif options.psd == "clip":
        if not owned:
            check_memory(stack.shape, stack.dtype, options.memory)
        stack, bases = clip(stack, unknown, owned)
    share = weight / weight.sum()
    mean = diagonal_means(np.einsum("iik->ik", stack).astype(float), share, has)
    grand = _grand_mean(stack, share) if options.normalize == "center" else np.zeros(len(names))
    scales = _scales(mean, grand, stack.dtype, options.normalize)
    if kernels is not None:
        scales = scales / [kernel._price for kernel in kernels]
    say_dropped(names, scales, options.normalize)
    kept = np.flatnonzero(scales)
    if kept.size < scales.size:
        stack = np.take(stack, kept, axis=2)  # samples first, whatever the order was
    rounded = None if kernels is None else rounding_of([kernels[k] for k in kept], X)
    gram = DenseGram(stack, scales[kept], rounded)
    return KernelAssembly(gram, names, groups, kept, scales, None, kernels, X, bases, doubtful, has)


def _scales(mean: np.ndarray, grand: np.ndarray, dtype: Any, normalize: str | None) -> np.ndarray:
    """Return the factor that gives each kernel the size asked for, from the means of its diagonal and of all entries.

    It is 0 for kernels that have no size.
    """
    size = mean - grand if normalize == "center" else mean
    noise = NEARLY_CONSTANT[np.dtype(dtype).name] * mean if normalize == "center" else 0.0
    alive = size > np.maximum(noise, 1e-150)
    if normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)


def _grand_mean(stack: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return ``share' K_k share`` for every kernel."""
    each = kernels_first(stack)
    if each is not None:
        return np.array([share @ (share.astype(stack.dtype) @ K) for K in each])
    n, _, m = stack.shape
    total = np.zeros((n, m))
    for rows in row_blocks(stack):
        block = stack[rows]
        total += (share[rows].astype(stack.dtype) @ block.reshape(block.shape[0], n * m)).reshape(n, m)
    return share @ total
