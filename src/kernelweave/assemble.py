"""The door: the user's samples, labels and kernels in; problems on stored Gram matrices out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .grams import DenseGram
from .kernels import Kernel, as_kernels, evaluate
from .losses import Loss
from .penalties import MixingPenalty
from .problem import Problem

NORMALISATIONS = ("trace", "diagonal", "center", None)
PSD = ("check", "clip", "trust")
MULTICLASS = ("ovr", "ovo")
ASYMMETRY = 1e-6  # of a kernel's largest diagonal entry: what rounding may explain
SLACK = 1e-8  # of a kernel's mean diagonal: the negative eigenvalue that rounding may explain
CHECK_FLOPS = 2e9  # most work spent on looking for negative eigenvalues
BUFFER = 16 * 2**20  # bytes of kernel entries computed at a time
SHARE = 0.8  # of the memory available, how much "auto" lets the kernels take


# --- parameters -----------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """How kernels are brought in: scaling, definiteness, memory; refused here if they make no sense."""

    normalize: str | None = "trace"
    psd: str = "check"
    memory: Any = "auto"
    random_state: Any = None

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, NORMALISATIONS)
        check_choice("psd", self.psd, PSD)
        if self.memory != "auto":
            check_number("memory", self.memory, "'auto' or a number of bytes")


def check_choice(name: str, value: Any, known: Sequence[Any]) -> None:
    """Refuse a word that is not among the known ones, and list those."""
    if not any(value is word or (isinstance(value, str) and value == word) for word in known):
        raise ValueError(f"{name}={value!r} is not known: choose one of {', '.join(map(repr, known))}.")


def check_number(name: str, value: Any, wanted: str = "a number", kind: Any = Real) -> None:
    """Refuse what is not a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {wanted}, above zero; got {value!r} of type {type(value).__name__}.")
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be {wanted}, above zero and finite; got {value!r}.")


def check_whole(name: str, value: Any) -> None:
    """Refuse what is not a whole number from 1 on."""
    check_number(name, value, "a whole number", Integral)


# --- labels -----------------------------------------------------------------------


@dataclass(frozen=True)
class Targets:
    """Labels as numbers, for the rows that count.

    Rows of weight zero are left out here, so that nothing further on can tell them from rows that never were.
    """

    classes: np.ndarray  # (n_classes,)
    codes: np.ndarray  # (n,) position of each label in `classes`
    cost: np.ndarray  # (n,) what C is multiplied by
    rows: np.ndarray  # (n,) positions among the rows given
    weight: np.ndarray  # (n,) sample weights, for statistics of the data
    n_rows: int  # how many rows were given


def read_targets(
    y: np.ndarray,  # (n,)
    sample_weight: Any = None,  # (n,)
    class_weight: Any = None,
) -> Targets:
    """Turn labels and weights into numbers.

    Parameters
    ----------
    y : array of shape (n,)
        Labels of any kind.
    sample_weight : array of shape (n,), optional
        Weight 2 means the same as giving the row twice, weight 0 the same as leaving it out.
    class_weight : dict or "balanced", optional
        A further factor for each class.

    Returns
    -------
    Targets

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_targets
    >>> read_targets(np.array(["no", "yes", "no"]), [1.0, 2.0, 0.0]).cost
    array([1., 2.])
    """
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    weight = _read_weight(sample_weight, len(y))
    rows = np.flatnonzero(weight)
    classes, codes = np.unique(y[rows], return_inverse=True)
    if classes.size < 2:
        raise ValueError(f"y holds only one class ({classes[0]}) in rows of positive weight: give two classes or more.")
    weight = weight[rows]
    factors = _class_factors(class_weight, classes, codes, weight)
    return Targets(classes, codes, weight * factors[codes], rows, weight, len(y))


def _read_weight(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, X has {n} samples: give one weight each.")
    if np.any(weight < 0):
        raise ValueError("sample_weight holds negative values: give weights from 0 on.")
    if not np.any(weight):
        raise ValueError("sample_weight is zero for every row: give some rows a positive weight.")
    return weight


def _class_factors(class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the factor of each class; "balanced" counts rows by weight."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return weight.sum() / (classes.size * np.bincount(codes, weight))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} is not known: use None, 'balanced' or a dict.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors


@dataclass(frozen=True)
class Task:
    """One binary question: the rows it is about, all of them if None, and their signs."""

    name: str
    rows: np.ndarray | None
    y: np.ndarray


def split_tasks(targets: Targets, multiclass: str) -> list[Task]:
    """Return the binary questions that several classes are broken into; one question for two classes."""
    check_choice("multiclass", multiclass, MULTICLASS)
    codes, labels = targets.codes, [str(label) for label in targets.classes.tolist()]
    if len(labels) == 2:
        return [Task(" / ".join(labels), None, np.where(codes == 1, 1.0, -1.0))]
    if multiclass == "ovr":
        return [Task(label, None, np.where(codes == c, 1.0, -1.0)) for c, label in enumerate(labels)]
    return [_duel(a, b, codes, labels) for a, b in combinations(range(len(labels)), 2)]


def _duel(a: int, b: int, codes: np.ndarray, labels: list[str]) -> Task:
    rows = np.flatnonzero((codes == a) | (codes == b))
    return Task(f"{labels[a]} / {labels[b]}", rows, np.where(codes[rows] == b, 1.0, -1.0))


# --- kernels -----------------------------------------------------------------------


@dataclass(frozen=True)
class Assembly:
    """Kernels on the training samples, and what new samples must go through to meet them."""

    gram: DenseGram  # the kernels that are not zero
    names: list[str]  # (m,) all kernels
    kept: np.ndarray  # positions among all kernels of those in `gram`
    scales: np.ndarray  # (m,) factor of each kernel, 0 where it was left out
    kernels: list[Kernel] | None = None  # (m,) resolved; None for a precomputed stack
    X: Any = None  # (n, d) the rows that count; None for a precomputed stack
    bases: dict[int, np.ndarray] = field(default_factory=dict)  # positive eigenvectors of each clipped kernel
    doubtful: bool = False  # whether definiteness was looked at on some samples only

    @property
    def storage(self) -> str:
        """How the kernels are stored, as a phrase."""
        stack = self.gram.stack
        return f"dense {stack.dtype.name}, {_size(stack.nbytes)}"

    def cut(self, penalty: MixingPenalty) -> MixingPenalty:
        """Return the penalty on the kernels kept: parameters with one entry per kernel lose entries too."""
        m = len(self.names)
        penalty.check(m)
        if self.kept.size == m:
            return penalty
        parameters = penalty.get_params(deep=False)
        return type(penalty)(**{name: _entries(value, self.kept, m) for name, value in parameters.items()})

    def problem(self, task: Task, loss: Loss, penalty: MixingPenalty, C: np.ndarray) -> Problem:
        """Return the problem that a task poses to these kernels; C holds one cost for each row."""
        if task.rows is None:
            return Problem(self.gram, loss, penalty, task.y, C)
        return Problem(self.gram.take(task.rows), loss, penalty, task.y, C[task.rows])

    def check_energies(self, problem: Problem, beta: np.ndarray) -> None:
        """Refuse an answer along which a kernel shows a negative eigenvalue that the check at the door missed."""
        if not self.doubtful:
            return
        least = -ASYMMETRY * float(beta @ beta) * problem.gram.diagonal().mean(axis=0)
        for k in np.flatnonzero(problem.gram.quad(beta) < least):
            _refuse_indefinite(self.names[self.kept[k]])


def _entries(value: Any, kept: np.ndarray, m: int) -> Any:
    per_kernel = np.ndim(value) == 1 and len(value) == m
    return [value[k] for k in kept] if per_kernel else value


def from_samples(
    X: Any,  # (n, d)
    kernels: Any,
    options: Options,
    *,
    weight: np.ndarray,  # (n,)
    names: Sequence[str] | None = None,  # (d,)
    frame: Any = None,
) -> Assembly:
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

    Returns
    -------
    Assembly

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import Options, from_samples
    >>> made = from_samples(np.eye(3), ["linear", "rbf"], Options(), weight=np.ones(3))
    >>> made.gram.diagonal().mean(axis=0)
    array([1., 1.])
    """
    asked = as_kernels(kernels)
    if options.normalize == "diagonal":
        asked = [kernel.normalised() for kernel in asked]
    bank = [kernel for item in asked for kernel in item.resolve(X, names, frame, weight)]
    shape = (X.shape[0], X.shape[0], len(bank))
    check_memory(shape, X.dtype, options.memory)
    stack = np.empty(shape, dtype=X.dtype)
    _fill(stack, bank, X)
    labels = [kernel.name for kernel in bank]
    unknown = [k for k, kernel in enumerate(bank) if not kernel.psd]
    for k in unknown:
        _check_symmetric(stack[:, :, k : k + 1], labels[k : k + 1], "its function")
    return _finish(stack, labels, unknown, options, weight, kernels=bank, X=X, owned=True)


def _fill(stack: np.ndarray, bank: list[Kernel], X: Any) -> None:
    """Write the kernels into the stack, some rows at a time."""
    n, _, m = stack.shape
    step = _rows_at_a_time(stack)
    buffer = np.empty((m, min(step, n), n), dtype=stack.dtype)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        block = buffer[:, : rows.stop - start]
        with np.errstate(over="ignore", invalid="ignore"):  # told by name below
            for k, matrix in evaluate(bank, X if step >= n else X[rows], X):
                block[k] = matrix
        _check_computed(block, bank)
        stack[rows] = np.moveaxis(block, 0, 2)


def _check_computed(block: np.ndarray, bank: list[Kernel]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(block.sum(axis=(1, 2))))
    for k in suspects:
        if not np.all(np.isfinite(block[k])):
            raise ValueError(f"{bank[k].name} gives NaN or infinity on X: scale X, or drop this kernel.")


def from_stack(stack: np.ndarray, options: Options, targets: Targets) -> Assembly:
    """Take kernels that were computed beforehand.

    Parameters
    ----------
    stack : array of shape (n, n, m)
        As `read_stack` returns it; used in place unless rows or kernels are left out of it.
    options : Options
        Scaling, definiteness, memory.
    targets : Targets
        Which rows count, and how much.

    Returns
    -------
    Assembly
    """
    if options.normalize == "diagonal":
        raise ValueError(
            "normalize='diagonal' is not possible for precomputed kernels, since X holds no k(x, x) of new "
            "samples: normalise the kernels before stacking them, or use normalize='trace'."
        )
    labels = [f"kernel {k}" for k in range(stack.shape[2])]
    _check_symmetric(stack, labels, "X")
    owned = targets.rows.size < stack.shape[0]
    if owned:
        stack = stack[np.ix_(targets.rows, targets.rows)]
    return _finish(stack, labels, list(range(stack.shape[2])), options, targets.weight, owned=owned)


def read_stack(X: Any) -> np.ndarray:
    """Return a precomputed stack as an array of float32 or float64, or say what is wrong with its shape.

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
    return np.ascontiguousarray(stack)


def real_array(X: Any) -> np.ndarray:
    """Return X as an array of float32 or float64, without a copy if it is one."""
    array = np.asarray(X)
    if array.dtype in (np.float32, np.float64):
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"X must hold real numbers for kernels='precomputed'; got an array of {array.dtype}.")
    return array.astype(np.float64)


def _finish(
    stack: np.ndarray,
    names: list[str],
    unknown: list[int],
    options: Options,
    weight: np.ndarray,
    *,
    kernels: list[Kernel] | None = None,
    X: Any = None,
    owned: bool,
) -> Assembly:
    """Settle definiteness and scale, and leave zero kernels out."""
    bases: dict[int, np.ndarray] = {}
    doubtful = False
    if options.psd == "check":
        doubtful = _check_definite(stack, names, unknown, options.random_state)
    elif options.psd == "clip":
        if not owned:
            check_memory(stack.shape, stack.dtype, options.memory)
        stack, bases = _clip(stack, unknown, owned)
    scales = _scales(stack, weight / weight.sum(), options.normalize)
    kept = np.flatnonzero(scales)
    if kept.size < scales.size:
        _say_dropped([names[k] for k in np.flatnonzero(scales == 0)], kept.size, options.normalize)
        stack = stack[:, :, kept]
    return Assembly(DenseGram(stack, scales[kept]), names, kept, scales, kernels, X, bases, doubtful)


def _say_dropped(dropped: list[str], left: int, normalize: str | None) -> None:
    what = "zero or constant" if normalize == "center" else "zero"
    if not left:
        raise ValueError(f"Every kernel is {what} on the training samples: give one that tells them apart.")
    few = ", ".join(dropped[:8]) + (f" and {len(dropped) - 8} more" if len(dropped) > 8 else "")
    warnings.warn(f"Kernels {what} on the training samples get weight 0: {few}.", UserWarning, stacklevel=2)


# --- scale -----------------------------------------------------------------------


def _scales(stack: np.ndarray, share: np.ndarray, normalize: str | None) -> np.ndarray:
    """Return the factor that gives each kernel the size asked for; 0 for kernels that have none."""
    rows = np.arange(stack.shape[0])
    mean = share @ stack[rows, rows].astype(float)
    size = mean - _grand_mean(stack, share) if normalize == "center" else mean
    noise = 100 * np.finfo(stack.dtype).eps * mean if normalize == "center" else 0.0
    alive = size > np.maximum(noise, 1e-150)
    if normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)


def _grand_mean(stack: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return ``share' K_k share`` for every kernel."""
    n, _, m = stack.shape
    total = np.zeros((n, m))
    for rows in _row_blocks(stack):
        block = stack[rows]
        total += (share[rows].astype(stack.dtype) @ block.reshape(block.shape[0], n * m)).reshape(n, m)
    return share @ total


# --- what a kernel must be -----------------------------------------------------------------------


def _check_symmetric(stack: np.ndarray, names: list[str], source: str) -> None:
    """Refuse NaN, infinity and asymmetry, reading every entry once."""
    from .compiled.stacks import asymmetry

    rows = np.arange(stack.shape[0])
    largest = np.abs(stack[rows, rows]).max(axis=0)
    worst = asymmetry(np.ascontiguousarray(stack))
    broken = np.flatnonzero(~np.isfinite(worst))
    if broken.size:
        raise ValueError(f"{names[broken[0]]} holds NaN or infinity: check how {source} was made, or drop that kernel.")
    uneven = np.flatnonzero(worst > ASYMMETRY * largest)
    if uneven.size:
        k = uneven[0]
        raise ValueError(
            f"{names[k]} is not symmetric, entries (i, j) and (j, i) differ by up to {worst[k]:.3g}: "
            f"check how {source} was made, or use (K + K.T) / 2."
        )


def _check_definite(stack: np.ndarray, names: list[str], unknown: list[int], random_state: Any) -> bool:
    """Refuse kernels with a negative eigenvalue; True if not all samples were looked at, which can be too dear."""
    n = stack.shape[0]
    size = min(n, max(64, int((3 * CHECK_FLOPS / max(len(unknown), 1)) ** (1 / 3))))
    index = np.arange(n)
    if size < n:
        rng = check_random_state(0 if random_state is None else random_state)
        index = np.sort(rng.choice(n, size, replace=False))
    for first in range(0, len(unknown), 32):
        some = unknown[first : first + 32]
        for k, K in zip(some, np.moveaxis(stack[np.ix_(index, index, np.array(some))], 2, 0), strict=True):
            if not _is_definite(K.astype(float), stack.dtype):
                _refuse_indefinite(names[k])
    return size < n and bool(unknown)


def _refuse_indefinite(name: str) -> None:
    raise ValueError(
        f"{name} is not positive semidefinite, so nothing could be certified: use psd='clip' to drop the negative "
        "part of its spectrum, or leave the kernel out."
    )


def _is_definite(K: np.ndarray, dtype: np.dtype) -> bool:
    """Whether K has a Cholesky factor once rounding is allowed for; an exact zero counts."""
    if not K.any():
        return True
    K[np.diag_indices_from(K)] += _slack(K, dtype)
    try:
        np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return False
    return True


def _slack(K: np.ndarray, dtype: np.dtype) -> float:
    """Return how negative an eigenvalue may be on account of rounding."""
    diagonal = np.abs(np.diagonal(K))
    rounding = 4 * float(np.finfo(dtype).eps) * np.sqrt(len(K))
    return max(SLACK * float(diagonal.mean()), rounding * float(diagonal.max()))


def _clip(stack: np.ndarray, unknown: list[int], owned: bool) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Replace indefinite kernels by their positive parts; also return the eigenvectors that were kept."""
    bases: dict[int, np.ndarray] = {}
    for k in unknown:
        K = stack[:, :, k].astype(float)
        values, vectors = eigh(K)
        if values[0] >= -_slack(K, stack.dtype):
            continue
        stack = stack if owned else stack.copy()
        owned = True
        positive = values > 0
        basis = vectors[:, positive]
        stack[:, :, k] = (basis * values[positive]) @ basis.T
        bases[k] = basis
    return stack, bases


# --- memory -----------------------------------------------------------------------


def check_memory(shape: tuple[int, ...], dtype: Any, memory: Any = "auto") -> None:
    """Refuse, before anything is allocated, a stack that would not fit.

    Parameters
    ----------
    shape : tuple of int
        Of the stack, (n, n, m).
    dtype : dtype
        Of its entries.
    memory : "auto" or number, default="auto"
        Bytes allowed; "auto" is a share of what is available now.

    Examples
    --------
    >>> from kernelweave.assemble import check_memory
    >>> check_memory((100, 100, 3), "float64", memory=1e6)
    """
    need = int(np.prod([int(length) for length in shape], dtype=object)) * np.dtype(dtype).itemsize
    allowed = available_memory() * SHARE if memory == "auto" else float(memory)
    if need <= allowed:
        return
    halve = ", X as float32" if np.dtype(dtype) == np.float64 else ""
    raise ValueError(
        f"The kernels would take {_size(need)} ({shape[2]} of {shape[0]} x {shape[1]} samples, "
        f"{np.dtype(dtype).name}), but memory={memory!r} allows {_size(allowed)}: "
        f"use fewer kernels or rows{halve}, or a larger memory= in bytes."
    )


def available_memory() -> float:
    """Return the bytes of memory that could be had now; infinity where the system does not say.

    Examples
    --------
    >>> from kernelweave.assemble import available_memory
    >>> available_memory() > 0
    True
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * float(os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return np.inf


def _size(count: float) -> str:
    """Write a number of bytes as a person would say it."""
    for unit, power in (("GiB", 30), ("MiB", 20)):
        if count >= 0.1 * 2**power:
            return f"{count / 2**power:.1f} {unit}"
    return f"{count / 2**10:.1f} KiB"


def _rows_at_a_time(stack: np.ndarray) -> int:
    return max(1, BUFFER // (stack.itemsize * stack.shape[1] * max(stack.shape[2], 1)))


def _row_blocks(stack: np.ndarray) -> Iterator[slice]:
    n, step = stack.shape[0], _rows_at_a_time(stack)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
