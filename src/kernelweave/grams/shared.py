"""One basis for many kernels: a few of their own functions, chosen on some samples, and a small core for each kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from ..arrays import Array, cast, device_of, like, namespace, to_host
from ..kernels import Kernel
from .basis import BasisGram, Part
from .factors import Factors, Job, refuse_infinite, whiteners
from .landmarks import draw_landmarks
from .lowrank import LowRankGram
from .maps import anchor, pieces, precision, take_rows

SAMPLES = 1000  # on which functions are chosen and cores are found, at least
PER_FUNCTION = 5  # of them for each function, at least
OFFERED = 16  # functions to choose from for each function of the basis; large banks offer fewer of each kernel
SPARE = 20  # rows of the sketch beyond the functions to choose
CUT = 1e-10  # of the largest singular value of the functions: what is below is rounding
LEFT = 1e-8  # of its largest value: what a kernel among landmarks may have left where its factorisation ends
FAINT = 1e-9  # share of a kernel's trace that the smallest columns of its core's root may be left out for
MORE = 1e-2  # the same, of what is lost of the trace in any case
LOOK = 500  # samples on which the error of each kernel is measured
FIRST = 128  # landmarks tried first where a tolerance decides how many functions there are
MOST = 2048  # landmarks tried last
WIDER = 4  # functions tried for each landmark, at most, where a tolerance decides


@dataclass(frozen=True)
class Functions:
    """Some kernels' columns at some landmarks each, and the matrix that makes a basis of them."""

    kernels: tuple[Kernel, ...]
    landmarks: tuple[Any, ...]  # of each kernel
    turn: Array  # (functions, r)

    @property
    def width(self) -> int:
        """How many functions there are."""
        return self.turn.shape[0]

    def raw(self, X: Any) -> Array:  # (n, functions)
        """Return the functions at the rows of X."""
        blocks = [kernel(X, Z) for kernel, Z in zip(self.kernels, self.landmarks, strict=True)]
        return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=1)

    def __call__(self, X: Any) -> Array:  # (n, r)
        """Return the basis at the rows of X."""
        raw = self.raw(X)
        return raw @ cast(self.turn, raw.dtype)


@dataclass(frozen=True)
class BasisMaps:
    """The basis at new samples, and kernels in it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import SharedBasis
    >>> from kernelweave import kernels as K
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> made = SharedBasis(rank=3).factorise(K.linear(), X, share=np.ones(3) / 3, normalize=None, random_state=0)
    >>> made.maps.predictor(made.gram.rmatvec(np.array([0.0, 1.0, 0.0]))).decide(X).round(6)
    array([0., 1., 3.])
    """

    functions: tuple[Functions, ...]  # of each part
    parts: tuple[Part, ...]

    def transform(self, X: Any) -> Array:  # (n, d) -> (n, r)
        """Return the basis at samples, in their precision."""
        xp = namespace(anchor(X))
        blocks = [xp.concat([f(piece) for f in self.functions], axis=1) for _, piece in pieces(X, self._entries)]
        return xp.concat(blocks, axis=0)

    def predictor(
        self,
        z: Array,  # (D,) or (D, c)
    ) -> BasisPredictor:
        """Return what computes the combination ``z`` of the features of all kernels at new samples."""
        ranks = {int(k): root.shape[1] for part in self.parts for k, root in zip(part.kernels, part.roots, strict=True)}
        starts = np.cumsum([0, *(ranks[k] for k in range(len(ranks)))])
        functions, coefs, owners = [], [], []
        for own, part in zip(self.functions, self.parts, strict=True):
            found = {}
            for k, root in zip(part.kernels.tolist(), part.roots, strict=True):
                block = z[int(starts[k]) : int(starts[k + 1]), ...]
                if bool(namespace(z).any(block != 0)):
                    found[k] = cast(own.turn, z.dtype) @ (like(z, root) @ block)
            if found:
                functions.append(own)
                coefs.append(namespace(z).stack(list(found.values()), axis=1))
                owners.append(tuple(found))
        return BasisPredictor(tuple(functions), tuple(coefs), tuple(owners), z[:0, ...])

    @property
    def _entries(self) -> int:
        return sum(own.width for own in self.functions)


@dataclass(frozen=True)
class BasisPredictor:
    """Linear functions of a basis, one for each kernel that takes part, folded into coefficients of its functions."""

    functions: tuple[Functions, ...]
    coefs: tuple[Array, ...]  # (functions, kernels) or (functions, kernels, c) of each part
    kernels: tuple[tuple[int, ...], ...]  # positions among the kernels of the Gram stack
    empty: Array  # (0,) or (0, c): library, device and precision of the values

    def decide(self, X: Any) -> Array:  # (n,) or (n, c)
        """Return the values for the rows of X: one number for each function and sample, however many the kernels."""
        most = max((k for own in self.kernels for k in own), default=0)
        return self.shares(X, np.zeros(most + 1, dtype=int), 1)[:, 0, ...]

    def shares(
        self,
        X: Any,
        owner: np.ndarray,  # (m,) the part that each kernel of the Gram stack belongs to
        parts: int,
    ) -> Array:  # (n, parts) or (n, parts, c)
        """Return the values of each part for the rows of X; they sum to `decide`."""
        xp, empty = namespace(self.empty), self.empty
        shape = (parts, *empty.shape[1:])
        summed = [self._summed(coef, owner[list(own)], parts) for coef, own in zip(self.coefs, self.kernels, strict=True)]
        blocks = [xp.zeros((0, *shape), dtype=empty.dtype, device=device_of(empty))]
        for rows, piece in pieces(X, sum(own.width for own in self.functions)):
            total = xp.zeros((rows.stop - rows.start, *shape), dtype=empty.dtype, device=device_of(empty))
            for own, coef in zip(self.functions, summed, strict=True):
                values = cast(own.raw(piece), empty.dtype) @ xp.reshape(coef, (own.width, -1))
                total = total + xp.reshape(values, total.shape)
            blocks.append(total)
        return xp.concat(blocks, axis=0)

    def _summed(self, coef: Array, owner: np.ndarray, parts: int) -> Array:  # (functions, parts, ..)
        """Return the coefficients of each part."""
        xp = namespace(coef)
        member = like(coef, (owner[:, None] == np.arange(parts)).astype(float))
        if coef.ndim == 2:
            return coef @ member
        return xp.permute_dims(xp.permute_dims(coef, (0, 2, 1)) @ member, (0, 2, 1))


@dataclass(frozen=True)
class _Sample:
    """Kernels on the same columns of X, the landmarks that they share, and some samples to look at."""

    job: Job
    positions: tuple[int, ...]
    kernels: tuple[Kernel, ...]
    Z: Any  # (p, d)
    X: Any  # (s, d)

    def columns(self, place: int, marks: np.ndarray) -> Array:  # (s, marks)
        """Return a kernel between the samples and some landmarks, in double precision."""
        matrix = self.kernels[place](self.X, take_rows(self.Z, marks))
        if not bool(namespace(matrix).all(namespace(matrix).isfinite(matrix))):
            refuse_infinite(self.kernels[place])
        return cast(matrix, namespace(matrix).float64)

    def chosen(self, count: int, rng: np.random.RandomState) -> list[tuple[int, int]]:
        """Return pairs of a kernel and a landmark, most telling first: pivots of the functions that are offered.

        Each kernel counts alike, whatever its size. Pivoting sees a random sketch of the functions.
        """
        p, s, m = self.Z.shape[0], self.X.shape[0], len(self.kernels)
        offers = max(1, min(p, -(-OFFERED * count // m)))
        sketch = np.eye(s) if count + SPARE >= s else rng.normal(size=(count + SPARE, s))
        sketch = like(anchor(self.X), sketch)
        tables, pairs = [], []
        for place in range(m):
            marks = (np.arange(offers) * p // offers + place) % p
            table = to_host(sketch @ self.columns(place, marks))
            size = float(np.linalg.norm(table))
            tables.append(table / (size / offers**0.5 if size > 0 else 1.0))
            pairs += [(place, int(mark)) for mark in marks]
        R, pivots = qr(np.concatenate(tables, axis=1), mode="r", pivoting=True, check_finite=False)
        telling = np.abs(np.diag(R)) > CUT * max(abs(R[0, 0]), 1e-300)
        return [pairs[i] for i in pivots[: min(count, int(telling.sum()))]] or pairs[:1]

    def functions(self, pairs: Sequence[tuple[int, int]], turn: Any = None) -> Functions:
        """Return the functions of some pairs, kernel by kernel."""
        own: dict[int, list[int]] = {}
        for place, mark in pairs:
            own.setdefault(place, []).append(mark)
        kernels = tuple(self.kernels[place] for place in sorted(own))
        marks = tuple(take_rows(self.Z, np.array(own[place])) for place in sorted(own))
        return Functions(kernels, marks, np.eye(len(pairs)) if turn is None else turn)

    def oriented(self, functions: Functions) -> tuple[Functions, Array]:
        """Return functions with the matrix that makes them a basis, and it at the samples, of mean square one."""
        xp, s = namespace(anchor(self.X)), self.X.shape[0]
        raw = to_host(cast(functions.raw(self.X), xp.float64))
        U, sizes, back = np.linalg.svd(raw, full_matrices=False)
        kept = sizes > max(CUT, 100 * precision(self.job.X)) * max(float(sizes[0]), 1e-300)
        kept[0] = True
        inverse = np.where(kept, 1.0 / np.where(kept & (sizes > 0), sizes, 1.0), 0.0)
        turn = (back.T * (inverse * s**0.5))[:, kept]
        return replace(functions, turn=like(anchor(self.X), turn)), like(anchor(self.X), U[:, kept] * s**0.5)

    def cores(self, Q: Array) -> list[np.ndarray]:
        """Return each kernel's root in the basis Q (s, r): what it has of it at the landmarks, projected."""
        xp, s, roots = namespace(Q), self.X.shape[0], []
        for place, kernel in enumerate(self.kernels):
            marks, mix = _inverse_root(kernel, self.Z, self.job)
            root = to_host((xp.matrix_transpose(Q) @ self.columns(place, marks) / s) @ like(Q, mix))
            trace = float(xp.sum(cast(kernel.diagonal(self.X), xp.float64))) / s
            roots.append(_without_faint(root, trace))
        return roots

    def lost(self, Q: Array) -> np.ndarray:  # (kernels, r)
        """Return the share of each kernel's trace at the samples that the first columns of Q lack, for each number."""
        double = namespace(Q).float64
        losses = []
        for kernel, root in zip(self.kernels, self.cores(Q), strict=True):
            trace = float(namespace(Q).sum(cast(kernel.diagonal(self.X), double)))
            held = np.cumsum(np.sum(root**2, axis=1)) * self.X.shape[0]
            losses.append(1.0 - held / trace if trace > 0 else np.zeros(held.size))
        return np.array(losses)


def _inverse_root(kernel: Kernel, Z: Any, job: Job) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of landmarks, and W with ``W W'`` the inverse of the kernel among them, up to rounding.

    They are the pivots of a Cholesky factorisation, which ends where nothing is left: a wide kernel needs few.
    """
    if not kernel.psd:  # whose negative part is left out
        return np.arange(Z.shape[0]), whiteners([kernel], Z, job, None)[0]
    K = to_host(kernel(cast(Z, namespace(anchor(Z)).float64)))
    if not np.all(np.isfinite(K)):
        refuse_infinite(kernel)
    floor = max(LEFT, 10 * precision(job.X)) * max(float(K.diagonal().max()), 0.0)
    factor, pivots, rank, _ = dpstrf(K, tol=floor, lower=1)
    if not rank or not floor:
        return np.zeros(1, dtype=int), np.zeros((1, 1))
    return pivots[:rank] - 1, solve_triangular(factor[:rank, :rank], np.eye(rank), lower=True).T


def _without_faint(root: np.ndarray, trace: float) -> np.ndarray:  # (r, p) -> (r, fewer)
    """Return the root of a core without columns that add next to nothing to what is lost of the trace anyway."""
    squares = np.sum(root**2, axis=0)
    spare = max(FAINT * trace, MORE * (trace - float(squares.sum())))
    order = np.argsort(squares)
    faint = order[np.cumsum(squares[order]) <= spare][: root.shape[1] - 1]
    return np.delete(root, faint, axis=1)


@dataclass(frozen=True)
class Wish:
    """How large a basis is to be, and from what landmarks."""

    rank: int | None
    tol: float | None
    landmarks: Any
    n_landmarks: int | None


def shared_factors(job: Job, wish: Wish, rng: np.random.RandomState) -> Factors:
    """Return kernels in one basis for each set of columns: chosen on some samples, filled in one pass over all."""
    families: dict[Any, list[int]] = {}
    for k, kernel in enumerate(job.kernels):
        columns = kernel.columns
        families.setdefault(None if columns is None or len(columns) == job.X.shape[1] else columns, []).append(k)
    functions, roots = [], {}
    for positions in families.values():
        found, cores = _part(job, wish, tuple(positions), rng)
        functions.append(found)
        roots.update(zip(positions, cores, strict=True))
    parts = [Part(np.array(positions), tuple(roots[k] for k in positions)) for positions in families.values()]
    return _filled(job, functions, parts, rng)


def _part(
    job: Job, wish: Wish, positions: tuple[int, ...], rng: np.random.RandomState
) -> tuple[Functions, list[np.ndarray]]:
    """Return the functions of kernels on the same columns, and the roots of their cores."""
    count = wish.n_landmarks or (wish.rank if wish.tol is None else max(FIRST, wish.rank or 0))
    assert count is not None
    while True:
        sample = _drawn(job, wish, positions, count, rng)
        if wish.tol is None:
            assert wish.rank is not None
            pairs = sample.chosen(min(wish.rank, sample.X.shape[0]), rng)
        else:
            enough, pairs = _enough(sample, wish, rng)
            last = wish.n_landmarks is not None or not isinstance(wish.landmarks, str) or count >= job.X.shape[0]
            if not enough and not last and wish.rank is None:
                if 2 * count > MOST:
                    raise ValueError(
                        f"A kernel such as {sample.kernels[0].name} loses more than tol={wish.tol:g} of its trace at "
                        f"{count} landmarks: use a larger tol, or a rank."
                    )
                count = min(2 * count, job.X.shape[0])
                continue
        functions, Q = sample.oriented(sample.functions(pairs))
        return functions, sample.cores(Q)


def _drawn(job: Job, wish: Wish, positions: tuple[int, ...], count: int, rng: np.random.RandomState) -> _Sample:
    """Return landmarks, and samples to choose functions on."""
    kernels, n = tuple(job.kernels[k] for k in positions), job.X.shape[0]
    Z = draw_landmarks(wish.landmarks, count, kernels, job.X, rng)
    some = min(n, max(SAMPLES, PER_FUNCTION * max(wish.rank or 0, Z.shape[0])))
    rows = np.arange(n) if some == n else np.sort(rng.choice(n, some, replace=False))
    return _Sample(job, positions, kernels, Z, job.X if some == n else take_rows(job.X, rows))


def _enough(sample: _Sample, wish: Wish, rng: np.random.RandomState) -> tuple[bool, list[tuple[int, int]]]:
    """Return the fewest functions in which no kernel loses more than the tolerance, and whether there are enough."""
    most = min(WIDER * sample.Z.shape[0], sample.X.shape[0], wish.rank or sample.X.shape[0])
    pairs = sample.chosen(most, rng)
    functions = sample.functions(pairs)
    places = [(place, mark) for place, mark in sorted(pairs, key=lambda pair: pair[0])]
    order = [places.index(pair) for pair in pairs]  # columns of the functions, most telling first
    xp = namespace(anchor(sample.X))
    raw = to_host(cast(functions.raw(sample.X), xp.float64))[:, order]
    Q = like(anchor(sample.X), np.linalg.qr(raw)[0] * sample.X.shape[0] ** 0.5)
    worst = sample.lost(Q).max(axis=0)
    met = worst <= wish.tol
    return bool(met.any()), pairs[: int(np.argmax(met)) + 1] if met.any() else pairs


def _filled(job: Job, functions: list[Functions], parts: list[Part], rng: np.random.RandomState) -> Factors:
    """Write the basis down in one pass over the samples, and scale the kernels in it."""
    base = anchor(job.X)
    xp, n, r = namespace(base), job.X.shape[0], sum(own.turn.shape[1] for own in functions)
    replace(job, kernels=job.kernels[: len(functions)]).check_columns(r)
    dtype = getattr(xp, job.dtype)
    table = xp.empty((n, r), dtype=dtype, device=device_of(base))
    share, m = like(base, job.share), len(job.kernels)
    mean, center = np.zeros(m), 0.0
    for rows, piece in job.chunks(sum(own.width for own in functions), "basis"):
        block = xp.concat([own(piece) for own in functions], axis=1)
        table[rows, :] = cast(block, dtype)
        center = center + share[rows] @ cast(block, xp.float64)
        mean += [float(share[rows] @ cast(kernel.diagonal(piece), xp.float64)) for kernel in job.kernels]
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(to_host(center)))):
        refuse_infinite(job.kernels[int(np.argmin(np.isfinite(mean)))])
    gram = BasisGram(LowRankGram(table, [r]), parts)
    mean = _clipped(job, gram, mean, share)
    scales = _scales(job, gram, mean, center) / [kernel._price for kernel in job.kernels]
    kept = np.flatnonzero(scales)
    lost = _lost(job, functions, gram, rng)
    if kept.size:
        gram = gram.only(kept).rescaled(scales[kept]) if kept.size < m else gram.rescaled(scales)
        used = {k for k in kept.tolist()}
        functions = [own for own, part in zip(functions, parts, strict=True) if used & set(part.kernels.tolist())]
    return Factors(gram, kept, scales, lost, BasisMaps(tuple(functions), gram.parts))


def _clipped(job: Job, gram: BasisGram, mean: np.ndarray, share: Array) -> np.ndarray:  # (m,)
    """Return the mean diagonals, of what is left for kernels that may have had a negative part."""
    known = np.array([bool(kernel.psd) for kernel in job.kernels])
    return mean if known.all() else np.where(known, mean, gram.mean_diagonal(share))


def _scales(job: Job, gram: BasisGram, mean: np.ndarray, center: Any) -> np.ndarray:  # (m,)
    """Return the factor that gives each kernel the size asked for; 0 for kernels that have none."""
    size, noise = mean, np.zeros(mean.size)
    if job.normalize == "center":
        size = mean - gram.squared_norms(gram.unfold(center))
        noise = 100 * np.finfo(job.dtype).eps * mean
    alive = size > np.maximum(noise, 1e-150)
    if job.normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)


def _lost(job: Job, functions: list[Functions], gram: BasisGram, rng: np.random.RandomState) -> np.ndarray:  # (m,)
    """Return how far each kernel's diagonal is from its own, as a share of the trace, on some samples."""
    n = job.X.shape[0]
    some = take_rows(job.X, np.sort(rng.choice(n, min(n, LOOK), replace=False)))
    xp = namespace(anchor(some))
    table = xp.concat([own(some) for own in functions], axis=1)
    have = to_host(gram.on(table).diagonal())
    own = np.stack([to_host(cast(kernel.diagonal(some), xp.float64)) for kernel in job.kernels], axis=1)
    whole = own.sum(axis=0)
    return np.where(whole > 0, np.abs(own - have).sum(axis=0) / np.where(whole > 0, whole, 1.0), 0.0)
