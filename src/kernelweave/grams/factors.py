"""From raw columns of kernels to features: surveyed, rotated, scaled, written down once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import threads
from ..arrays import Array, cast, device_of, dtype_name, is_numpy, like, namespace, readable, symmetric_product, to_host
from ..chunks import Chunks, checked
from ..kernels import Kernel, evaluate
from ..kernels.missing import Present, presence
from ..kernels.vector import side_by_side
from .base import FactorGram
from .chunked import ChunkedGram
from .lowrank import LowRankGram
from .maps import CHUNK, Landmarks, Maps, Source, anchor, features, join, piece_rows, pieces, precision
from .recomputed import RecomputedGram

AHEAD = 8  # pieces of features that may be worked on at a time, at most
CUT = 1e-10  # of the largest eigenvalue at the landmarks: what is below is rounding
SAFE = 1e-8  # inverse of the condition down to which a triangle loses no digits that eigenvectors would keep
NEARLY_CONSTANT = {"float64": 1e-9, "float32": 1e-4}  # share of a kernel that is not constant: too few digits are left
WIDE = 0.8  # columns for each sample from which features keep the axes they are made with: sums of kernels are smaller
TINY = 1e-13  # of the largest: squared lengths of features that are as good as zero


@dataclass(frozen=True)
class Factors:
    """Kernels on the training samples as features, and the way for new samples to get theirs."""

    gram: FactorGram  # the kernels that are not zero
    kept: np.ndarray  # (a,) positions among all kernels of those in `gram`
    scales: np.ndarray  # (m,) factor of each kernel, 0 where it was left out
    lost: np.ndarray  # (m,) share of each kernel's trace that its features lack
    maps: Any  # from samples to features


@dataclass(frozen=True)
class Job:
    """What is to be factorised, and how."""

    kernels: list[Kernel]
    X: Any
    share: Any
    normalize: str | None
    dtype: str
    memory: float | None
    progress: bool
    whole: bool = False
    rows: Chunks | None = None  # all samples where they come in chunks, of which X are some

    @property
    def n(self) -> int:
        """Number of samples."""
        return (self.X if self.rows is None else self.rows).shape[0]

    def chunks(self, width: int, what: str) -> Any:
        """Pieces of the samples, with a bar if one was asked for."""
        if not self.progress:
            return pieces(self.X, width)
        from tqdm import tqdm

        total = -(-self.X.shape[0] // piece_rows(self.X, width))
        return tqdm(pieces(self.X, width), total=total, desc=what, leave=False)

    @property
    def most(self) -> float:
        """Columns that memory allows."""
        return np.inf if self.memory is None else self.memory // (self.n * np.dtype(self.dtype).itemsize)

    def check_columns(self, columns: int) -> None:
        """Refuse features that would not fit, before they are allocated."""
        if columns <= self.most:
            return
        need, rank = self.X.shape[0] * columns * np.dtype(self.dtype).itemsize, int(self.most // len(self.kernels))
        way_out = f"rank={rank} would fit" if rank else "use fewer kernels or rows, or a larger memory= in bytes"
        raise ValueError(
            f"The features would take {readable(need)} ({self.X.shape[0]} samples, {columns} columns, {self.dtype}), "
            f"but memory= allows {readable(self.memory or 0.0)}: {way_out}."
        )


@dataclass(frozen=True)
class _Survey:
    """What one pass over the samples finds out about every kernel."""

    products: list[np.ndarray]  # V_k' V_k
    trace: np.ndarray  # (m,) of the kernel itself
    mean: np.ndarray  # (m,) of its diagonal, by share
    center: np.ndarray  # (D,) mean of the features, by share

    @classmethod
    def of(cls, sums: Any) -> _Survey:
        """Return what sums over the samples say."""
        products, diagonals, center = sums
        trace, mean = diagonals
        return cls(products, trace, mean, center)


def beside(X: Any, values: np.ndarray) -> Array:
    """Return a host array where the features of X are, in the precision of X."""
    return values.astype(X.dtype) if is_numpy(anchor(X)) else like(X, values, dtype_name(X))


def _ranks(sources: Sequence[Source], mixes: Sequence[Any]) -> list[int]:
    widths = {k: source.width for source in sources for k in source.positions}
    return [widths[k] if mix is None else mix.shape[1] for k, mix in enumerate(mixes)]


def _survey(job: Job, sources: Sequence[Source], mixes: Sequence[Array | None], flat: Array | None = None) -> _Survey:
    """Look at all samples once, and write their features down if there is room for them in ``flat``."""
    base = anchor(job.X)
    sums = _sums(job, sources, mixes, like(base, job.share), flat)
    survey = _Survey.of(sums)
    _check_finite(job, survey)
    return survey


def _survey_in_chunks(job: Job, sources: Sequence[Source], mixes: Sequence[Array | None]) -> _Survey:
    """Look at all samples once, each chunk where it is."""
    assert job.rows is not None
    chunks = job.rows.made(checked, [], store=False)
    bare = replace(job, X=job.X[:0], share=None, rows=None, progress=False)
    survey = _Survey.of(chunks.total(_sums_of_chunk, [bare, sources, mixes], [np.asarray(job.share)]))
    _check_finite(job, survey)
    return survey


def _sums_of_chunk(X: np.ndarray, job: Job, sources: Any, mixes: Any, share: np.ndarray) -> tuple[Any, ...]:
    with np.errstate(over="ignore", invalid="ignore"):  # told by the kernel's name
        return _sums(replace(job, X=X), sources, mixes, share)


def _sums(
    job: Job, sources: Sequence[Source], mixes: Sequence[Array | None], share: Array, flat: Array | None = None
) -> tuple[Any, ...]:
    """Return ``V_k'V_k`` of each kernel, the sums of its diagonal, plain and by share, and of the features by share."""
    xp, ranks = namespace(share), _ranks(sources, mixes)
    D, m = sum(ranks), len(ranks)

    def look(part: tuple[slice, Any]) -> tuple[list[Array], list[Array], Array]:
        rows, piece = part
        blocks = features(sources, mixes, piece)
        products = [symmetric_product(cast(block, xp.float64)) for block in blocks]
        weight, sums = xp.stack([xp.ones_like(share[rows]), share[rows]]), {}
        for source in sources:
            for place, k in enumerate(source.positions):
                sums[k] = weight @ cast(source.diagonal(place, piece), xp.float64)
        block = join(blocks)
        if flat is not None:
            flat[rows.start * D : rows.stop * D] = xp.reshape(cast(block, flat.dtype), (-1,))
        return products, [sums[k] for k in range(m)], share[rows] @ cast(block, xp.float64)

    width = max([D, *(source.width for source in sources)])
    found = _each_piece(look, job, width, "features")
    products, sums, center = next(found)
    for more, others, middle in found:
        products = [one + other for one, other in zip(products, more, strict=True)]
        sums = [one + other for one, other in zip(sums, others, strict=True)]
        center = center + middle
    return [to_host(product) for product in products], to_host(xp.stack(sums, axis=1)), to_host(center)


def _each_piece(work: Callable[[tuple[slice, Any]], Any], job: Job, width: int, what: str) -> Iterator[Any]:
    """Yield what work makes of pieces of the samples, in order, on several threads where that is safe and pays."""
    several = piece_rows(job.X, width) < job.X.shape[0] and is_numpy(anchor(job.X)) and side_by_side(job.kernels)
    if not several:
        yield from map(work, job.chunks(width, what))
        return
    with threads.one_for_blas():
        yield from threads.in_order(work, job.chunks(width, what), CHUNK, AHEAD)


def _check_finite(job: Job, survey: _Survey) -> None:
    for kernel, product, trace in zip(job.kernels, survey.products, survey.trace, strict=True):
        if not (np.isfinite(trace) and np.all(np.isfinite(product))):
            refuse_infinite(kernel)


def refuse_infinite(kernel: Kernel) -> None:
    raise ValueError(f"{kernel.name} gives NaN or infinity on X: scale X, or drop this kernel.")


def _eigh(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues from the largest down, and their vectors."""
    values, vectors = np.linalg.eigh(A)
    return values[::-1], vectors[:, ::-1]


def whiteners(kernels: Sequence[Kernel], Z: Any, job: Job, rank: int | None) -> list[np.ndarray]:
    """Return for each kernel ``L w^-1/2`` of ``K(Z, Z) = L diag(w) L'``, without what is rounding."""
    cut = max(CUT, 10 * precision(job.X))
    found: dict[int, np.ndarray] = {}
    for k, matrix in evaluate(kernels, cast(Z, namespace(anchor(Z)).float64)):
        W = to_host(matrix)
        if not np.all(np.isfinite(W)):
            refuse_infinite(kernels[k])
        found[k] = _whitener(0.5 * (W + W.T), cut, rank or W.shape[0])
    return [found[k] for k in range(len(kernels))]


def _whitener(W: np.ndarray, cut: float, rank: int) -> np.ndarray:
    """Return ``L w^-1/2`` of ``W = L diag(w) L'``; a triangle as good where nothing is cut, at a tenth of the price."""
    from scipy.linalg import lapack

    size = W.shape[0]
    if rank >= size:
        triangle, failed = lapack.dpotrf(W, lower=1)
        if not failed and lapack.dpocon(triangle, np.abs(W).sum(axis=0).max(), uplo="L")[0] > max(size * cut, SAFE):
            return lapack.dtrtri(triangle, lower=1)[0].T
    values, vectors = _eigh(W)
    count = min(int(np.sum(values > max(cut * values[0], 0.0))), rank)
    return vectors[:, :count] / np.sqrt(values[:count])


def cut_to(tol: float, rank: int | None, kernels: Sequence[Kernel], Z: Any, job: Job) -> list[tuple[np.ndarray, bool]]:
    """Return for each kernel the fewest features that lose no more than ``tol``, and whether they are enough."""
    source = Landmarks(tuple(range(len(kernels))), tuple(kernels), Z)
    mixes = whiteners(kernels, Z, job, None)
    survey = _survey(replace(job, kernels=list(kernels)), [source], [beside(job.X, mix) for mix in mixes])
    found = []
    for mix, product, trace in zip(mixes, survey.products, survey.trace, strict=True):
        values, vectors = _eigh(product)
        enough = np.cumsum(values) >= (1.0 - tol) * trace
        count = int(np.argmax(enough)) + 1 if enough.any() else values.size
        met = bool(enough.any()) or trace <= 0.0
        found.append((mix @ vectors[:, : min(count, rank or count)], met or (rank is not None and count > rank)))
    return found


def build(job: Job, sources: Sequence[Source], plan: Sequence[np.ndarray | None], lost: np.ndarray | None) -> Factors:
    """Fill the features in one pass, rotate and scale them in place in another; or find how to make them."""
    ranks = _ranks(sources, plan)
    if job.whole:
        job.check_columns(sum(ranks))
    flat, survey = _filled(job, sources, [None if mix is None else beside(job.X, mix) for mix in plan])
    as_made = job.whole or (job.rows is None and sum(ranks) >= WIDE * job.n)
    values, turns = zip(*(_axes(product, as_made) for product in survey.products), strict=True)
    survey = _of_those_present(_clipped(survey, values, job), job)
    scales = _scales(survey, ranks, job) / [kernel._price for kernel in job.kernels]
    scales = np.where([turn.shape[1] > 0 for turn in turns], scales, 0.0)
    kept = np.flatnonzero(scales)
    turns = {k: turns[k] * np.sqrt(scales[k]) for k in kept.tolist()}
    new = {k: place for place, k in enumerate(turns)}
    parts = tuple(part for source in sources if (part := source.only(new)) is not None)
    mixes = tuple(beside(job.X, turn if plan[k] is None else plan[k] @ turn) for k, turn in turns.items())
    maps = Maps(parts, mixes)
    gram: FactorGram
    if job.rows is not None and mixes:
        gram = ChunkedGram.of(job.rows, maps, stored=sum(mix.shape[1] for mix in mixes) <= job.most)
    elif flat is None and mixes:
        gram = RecomputedGram(maps, job.X)
    else:
        flat = flat if flat is not None else _nothing(job, 0)
        gram = LowRankGram(_rotate(flat, job, ranks, turns), [turn.shape[1] for turn in turns.values()])
    return Factors(gram, kept, scales, _missing(survey, values) if lost is None else lost, maps)


def _filled(job: Job, sources: Sequence[Source], mixes: Sequence[Array | None]) -> tuple[Array | None, _Survey]:
    """Return the features one after the other, None where they do not fit, and what was seen of the samples."""
    if job.rows is not None:
        return None, _survey_in_chunks(job, sources, mixes)
    columns = sum(_ranks(sources, mixes))
    flat = _nothing(job, job.n * columns) if columns <= job.most else None
    return flat, _survey(job, sources, mixes, flat)


def _nothing(job: Job, count: int) -> Array:
    base = anchor(job.X)
    xp = namespace(base)
    return xp.empty((count,), dtype=getattr(xp, job.dtype), device=device_of(base))


def _axes(product: np.ndarray, as_made: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal axes of features that are not zero, or the axes they have, and their squared lengths."""
    if product.shape[0] == 0:
        return np.empty(0), product
    if as_made:
        return np.diag(product), np.eye(product.shape[0])
    values, vectors = _eigh(product)
    count = int(np.sum(values > max(TINY * values[0], 0.0)))
    return values[:count], vectors[:, :count]


def _clipped(survey: _Survey, values: Sequence[np.ndarray], job: Job) -> _Survey:
    """Return the survey with sizes of what is left of kernels that may have had a negative part."""
    held = np.array([squares.sum() for squares in values])
    known = np.array([bool(kernel.psd) for kernel in job.kernels])
    mean = np.where(known, survey.mean, held / job.n)
    return replace(survey, trace=np.where(known, survey.trace, held), mean=mean)


def _of_those_present(survey: _Survey, job: Job) -> _Survey:
    """Return the survey with mean diagonals over the samples that have what a kernel looks at: others are means."""
    has = presence(job.kernels, job.X)
    if has is None:
        return survey
    part = job.share @ has
    means = [kernel.others.grand(kernel.kernel) if isinstance(kernel, Present) else 0.0 for kernel in job.kernels]
    return replace(survey, mean=(survey.mean - (1.0 - part) * means) / part)


def _scales(survey: _Survey, ranks: Sequence[int], job: Job) -> np.ndarray:
    """Return the factor that gives each kernel the size asked for; 0 for kernels that have none."""
    size, noise = survey.mean, np.zeros(len(ranks))
    if job.normalize == "center":
        owner = np.repeat(np.arange(len(ranks)), ranks)
        size = size - np.bincount(owner, survey.center**2, len(ranks))
        noise = NEARLY_CONSTANT[job.dtype] * survey.mean
    alive = size > np.maximum(noise, 1e-150)
    if job.normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)


def _missing(survey: _Survey, values: Sequence[np.ndarray]) -> np.ndarray:
    """Return the share of each trace that the features lack; 0 for a kernel that has none."""
    held = np.array([squares.sum() for squares in values])
    trace = np.where(survey.trace > 0, survey.trace, 1.0)
    return np.where(survey.trace > 0, np.clip(1.0 - held / trace, 0.0, 1.0), 0.0)


def _rotate(flat: Array, job: Job, ranks: Sequence[int], turns: dict[int, np.ndarray]) -> Array:  # (n, D)
    """WeightStep the features of each kernel, some rows at a time; what is left of a row moves to its new place."""
    xp, n, old = namespace(flat), job.n, sum(ranks)
    ends = np.cumsum(ranks)
    moves = [(slice(int(ends[k] - ranks[k]), int(ends[k])), like(flat, turn, job.dtype)) for k, turn in turns.items()]
    new = sum(turn.shape[1] for turn in turns.values())
    if not new:
        return xp.reshape(flat[:0], (n, 0))

    def turned(part: tuple[slice, Any]) -> tuple[slice, Array]:
        rows = part[0]
        block = xp.reshape(flat[rows.start * old : rows.stop * old], (-1, old))
        return rows, join([block[:, columns] @ turn for columns, turn in moves])

    for rows, block in _each_piece(turned, job, old, "rotation"):
        flat[rows.start * new : rows.stop * new] = xp.reshape(block, (-1,))  # where pieces before it were
    return xp.reshape(flat[: n * new], (n, new))
