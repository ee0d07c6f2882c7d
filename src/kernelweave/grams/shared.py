"""One basis for many kernels: functions of their own, chosen on some samples, and a small core for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpstrf

from ..arrays import Array, cast, device_of, like, namespace, to_host
from ..kernels import Kernel, evaluate
from ..kernels.base import evaluate_each
from .base import FactorGram
from .basis import BasisGram, Part
from .chunked import ChunkedGram
from .factors import Factors, Job, beside, refuse_infinite, whiteners
from .landmarks import draw_landmarks, indices
from .lowrank import LowRankGram
from .maps import Maps, anchor, join, pieces, precision, take_columns, take_rows
from .recomputed import RecomputedGram

SAMPLES = 1000  # on which functions are chosen and cores are found, at least
PER_FUNCTION = 2  # of them for each function, at least
OFFERED = 12  # functions that are looked at for each that is chosen, of small banks; large ones offer fewer of each
CHOICE = 4  # functions to choose from for each that is chosen
POOL = 2  # functions that are chosen for each column of the basis, which holds most of what they span
SPARE = 20  # samples on which functions are compared, beyond the functions to choose
FITTED = 2  # samples for each column of the basis, at which kernels are written in it
FEWEST = 300  # such samples in all, at least
ALIKE = 25  # kernels of a kind that say for all of them which axes of a basis hold most
SEEN = 12  # functions that are looked at for that, for each column of the basis
CUT = 1e-10  # of the largest singular value of the functions: what is below is rounding
LEFT = 1e-8  # of its largest value: what a kernel among landmarks may have left where its factorisation ends
FAINT = 1e-9  # share of a kernel's trace that the smallest columns of its core's root may be left out for
MORE = 1e-2  # the same, of what is lost of the trace in any case
LOOK = 500  # samples on which the error of each kernel is measured
LEAST = 125  # the same, where there are many kernels
LOOKS = 25_000  # values of kernels that are compared in all
FIRST = 128  # landmarks tried first where a tolerance decides how many functions there are
MOST = 2048  # landmarks tried last
WIDER = 4  # functions tried for each landmark, at most, where a tolerance decides


@dataclass(frozen=True)
class Functions:
    """Columns of some kernels at some landmarks each: a source of raw columns of which a part of a basis is made."""

    positions: tuple[int, ...]  # one: which part it is
    kernels: tuple[Kernel, ...]
    landmarks: tuple[Any, ...]  # of each kernel

    @property
    def width(self) -> int:
        """How many functions there are."""
        return sum(Z.shape[0] for Z in self.landmarks)

    def __call__(self, X: Any) -> Array:  # (n, width)
        """Return the functions at the rows of X."""
        return join(evaluate_each(self.kernels, X, self.landmarks))

    def raw(self, X: Any) -> Iterator[tuple[int, Array]]:
        """Yield the part and its functions at the rows of X."""
        yield self.positions[0], self(X)

    def diagonal(self, place: int, X: Any) -> Array:
        """Return the sum of their squares, which stands for the diagonal."""
        values = self(X)
        return namespace(values).sum(values**2, axis=1)

    def only(self, new: Mapping[int, int]) -> Functions | None:
        """Return the same as another part, None if it is not asked for."""
        k = self.positions[0]
        return replace(self, positions=(new[k],)) if k in new else None


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

    basis: Maps  # from samples to the basis: a kernel of it is a part
    parts: tuple[Part, ...]

    def transform(self, X: Any) -> Array:  # (n, d) -> (n, r)
        """Return the basis at samples, in their precision."""
        return self.basis.transform(X)

    def predictor(
        self,
        z: Array,  # (D,) or (D, c)
    ) -> BasisPredictor:
        """Return what computes the combination ``z`` of the features of all kernels at new samples."""
        ranks = {int(k): root.shape[1] for part in self.parts for k, root in zip(part.kernels, part.roots, strict=True)}
        starts = np.cumsum([0, *(ranks[k] for k in range(len(ranks)))])
        functions, coefs, owners = [], [], []
        for own, mix, part in zip(self.basis.sources, self.basis.mixes, self.parts, strict=True):
            assert isinstance(own, Functions)
            found = {}
            for k, root in zip(part.kernels.tolist(), part.roots, strict=True):
                block = z[int(starts[k]) : int(starts[k + 1]), ...]
                if bool(namespace(z).any(block != 0)):
                    found[k] = cast(mix, z.dtype) @ (like(z, root) @ block)
            if found:
                functions.append(own)
                coefs.append(namespace(z).stack(list(found.values()), axis=1))
                owners.append(tuple(found))
        return BasisPredictor(tuple(functions), tuple(coefs), tuple(owners), z[:0, ...])


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
        summed = [
            self._summed(coef, owner[list(own)], parts) for coef, own in zip(self.coefs, self.kernels, strict=True)
        ]
        blocks = [xp.zeros((0, *shape), dtype=empty.dtype, device=device_of(empty))]
        for rows, piece in pieces(X, sum(own.width for own in self.functions)):
            total = xp.zeros((rows.stop - rows.start, *shape), dtype=empty.dtype, device=device_of(empty))
            for own, coef in zip(self.functions, summed, strict=True):
                values = cast(own(piece), empty.dtype) @ xp.reshape(coef, (own.width, -1))
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
class _Offer:
    """Functions of one kernel that may become part of a basis, at the samples."""

    marks: np.ndarray  # (a,) their landmarks
    table: Array  # (s, a)


@dataclass(frozen=True)
class _Sample:
    """Kernels on the same columns of X, the landmarks that they share, and some samples to look at."""

    job: Job
    positions: tuple[int, ...]
    kernels: tuple[Kernel, ...]
    Z: Any  # (p, d)
    X: Any  # (s, d)

    def checked(self, place: int, matrix: Array) -> Array:
        """Return a matrix of a kernel in double precision, or refuse it where it is no number."""
        if not bool(namespace(matrix).all(namespace(matrix).isfinite(matrix))):
            refuse_infinite(self.kernels[place])
        return cast(matrix, namespace(matrix).float64)

    def offered(self, count: int) -> list[_Offer]:
        """Return functions to choose from, some of each kernel, at landmarks that differ from kernel to kernel."""
        every = range(len(self.kernels))
        return self.some_of(every, (OFFERED if len(self.spread()) == len(every) else CHOICE) * count)

    def some_of(self, places: Sequence[int], count: int) -> list[_Offer]:
        """Return about so many functions of some kernels together, at landmarks that differ from kernel to kernel."""
        p = self.Z.shape[0]
        each = max(1, min(p, -(-count // len(places))))
        every = [(np.arange(each) * p // each + place) % p for place in places]
        kernels = [self.kernels[place] for place in places]
        tables = evaluate_each(kernels, self.X, [take_rows(self.Z, marks) for marks in every])
        both = zip(places, every, tables, strict=True)
        return [_Offer(marks, self.checked(place, table)) for place, marks, table in both]

    def chosen(self, offers: list[_Offer], count: int) -> list[tuple[int, int]]:
        """Return pairs of a kernel and a landmark, most telling first: pivots of the functions that are offered.

        Each kernel counts alike, whatever its size. Pivoting sees as many samples as there are functions to choose.
        """
        s = self.X.shape[0]
        some = np.unique(np.arange(min(s, count + SPARE)) * s // min(s, count + SPARE))
        step = max(1, len(offers) * offers[0].marks.size // (CHOICE * count))
        offers = [_Offer(offer.marks[::step], offer.table[:, ::step]) for offer in offers]
        tables = [to_host(take_rows(offer.table, some)) for offer in offers]
        sizes = [max(float(np.linalg.norm(table)), 1e-300) / table.shape[1] ** 0.5 for table in tables]
        pairs = [(place, int(mark)) for place, offer in enumerate(offers) for mark in offer.marks]
        whole = np.concatenate([table / size for table, size in zip(tables, sizes, strict=True)], axis=1)
        R, pivots = qr(whole, mode="r", pivoting=True, check_finite=False)
        telling = np.abs(np.diag(R)) > CUT * max(abs(R[0, 0]), 1e-300)
        return [pairs[i] for i in pivots[: min(count, int(telling.sum()))]] or pairs[:1]

    def functions(self, pairs: Sequence[tuple[int, int]], number: int = 0) -> Functions:
        """Return the functions of some pairs, kernel by kernel, as a part of the basis."""
        own: dict[int, list[int]] = {}
        for place, mark in pairs:
            own.setdefault(place, []).append(mark)
        kernels = tuple(self.kernels[place] for place in sorted(own))
        marks = tuple(take_rows(self.Z, np.array(own[place])) for place in sorted(own))
        return Functions((number,), kernels, marks)

    def oriented(self, functions: Functions) -> tuple[np.ndarray, Array]:
        """Return the matrix that makes a basis of functions, and the basis at the samples, of mean square one."""
        xp, s = namespace(anchor(self.X)), self.X.shape[0]
        raw = to_host(cast(functions(self.X), xp.float64))
        U, sizes, back = np.linalg.svd(raw, full_matrices=False)
        kept = sizes > max(CUT, 100 * precision(self.job.X)) * max(float(sizes[0]), 1e-300)
        kept[0] = True
        inverse = np.where(kept, 1.0 / np.where(kept & (sizes > 0), sizes, 1.0), 0.0)
        turn = (back.T * (inverse * s**0.5))[:, kept]
        return turn, like(anchor(self.X), U[:, kept] * s**0.5)

    def spread(self) -> dict[int, float]:
        """Return places of kernels that stand for all, and for how many each does: in large banks some of each kind."""
        kinds: dict[Any, list[int]] = {}
        for place, kernel in enumerate(self.kernels):
            kinds.setdefault(place if kernel.statistic is None else _kind(kernel), []).append(place)
        found: dict[int, float] = {}
        for places in kinds.values():
            few = np.unique(np.linspace(0, len(places) - 1, min(len(places), ALIKE)).astype(int))
            found |= {places[i]: len(places) / few.size for i in few.tolist()}
        return found

    def leading(self, offers: list[_Offer], Q: Array, rank: int) -> np.ndarray:  # (r, rank)
        """Return the axes of a basis Q (s, r) that hold most of all kernels' traces, each kernel counting alike.

        A kernel is what some functions tell of it, those that it offers or as many in all of fewer kernels: its
        Nystroem features at these landmarks.
        """
        seen, stand, double = [], self.spread(), namespace(anchor(self.Z)).float64
        if len(stand) < len(offers):
            offers = self.some_of(list(stand), SEEN * rank)
        for (place, count), offer in zip(stand.items(), offers, strict=True):
            kernel, Z = self.kernels[place], take_rows(self.Z, offer.marks)
            marks, whiten = _whitener(kernel, kernel(cast(Z, double)), Z, self.job)
            features = whiten(to_host(offer.table)[:, marks])
            size = max(float(np.linalg.norm(features)), 1e-300) / count**0.5
            seen.append((features / size).astype(np.float32))
        held = to_host(Q).T.astype(np.float32) @ np.concatenate(seen, axis=1)  # which axes, and no more, is asked
        return np.linalg.eigh((held @ held.T).astype(float))[1][:, ::-1][:, :rank]

    def cores(self, Q: Array, whole: bool) -> list[np.ndarray]:
        """Return each kernel's root in the basis Q (s, r): what it has of it at the landmarks, fitted at the samples.

        At all of them, where it is the ``whole`` that counts, or at those that tell enough.
        """
        xp, s, roots = namespace(Q), self.X.shape[0], {}
        some, fit = (np.arange(s), to_host(Q).T / s) if whole else _fitted(to_host(Q))
        X, fit = take_rows(self.X, some), like(Q, fit)
        among = evaluate(self.kernels, cast(self.Z, xp.float64))
        for (place, K), (_, columns) in zip(among, evaluate(self.kernels, X, self.Z), strict=True):
            kernel = self.kernels[place]
            marks, whiten = _whitener(kernel, K, self.Z, self.job)
            root = whiten(to_host(fit @ take_columns(self.checked(place, columns), marks)))
            trace = float(xp.sum(cast(kernel.diagonal(self.X), xp.float64))) / s
            roots[place] = _without_faint(root, trace)
        return [roots[place] for place in range(len(self.kernels))]

    def lost(self, Q: Array) -> np.ndarray:  # (kernels, r)
        """Return the share of each kernel's trace at the samples that the first columns of Q lack, for each number."""
        double = namespace(Q).float64
        losses = []
        for kernel, root in zip(self.kernels, self.cores(Q, whole=True), strict=True):
            trace = float(namespace(Q).sum(cast(kernel.diagonal(self.X), double)))
            held = np.cumsum(np.sum(root**2, axis=1)) * self.X.shape[0]
            losses.append(1.0 - held / trace if trace > 0 else np.zeros(held.size))
        return np.array(losses)


def _kind(kernel: Kernel) -> tuple[type, ...]:
    """Return what kernels that differ in a parameter only have in common: their class, and that of what they wrap."""
    inner = getattr(kernel, "kernel", None)
    return (type(kernel), *(() if inner is None else _kind(inner)))


def _whitener(kernel: Kernel, among: Array, Z: Any, job: Job) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Return positions of landmarks, and what makes features of the kernel's columns at them, up to rounding.

    ``among`` is the kernel between the landmarks Z. Those returned are the pivots of a Cholesky factorisation, which
    ends where nothing is left: a wide kernel needs few.
    """
    if not kernel.psd:  # whose negative part is left out
        W = whiteners([kernel], Z, job, None)[0]
        return np.arange(Z.shape[0]), lambda columns: columns @ W
    K = to_host(among)
    if not np.all(np.isfinite(K)):
        refuse_infinite(kernel)
    floor = max(LEFT, 10 * precision(job.X)) * max(float(K.diagonal().max()), 0.0)
    factor, pivots, rank, _ = dpstrf(K, tol=floor, lower=1)
    if not rank or not floor:
        return np.zeros(1, dtype=int), lambda columns: 0.0 * columns
    lower = factor[:rank, :rank]
    return pivots[:rank] - 1, lambda columns: solve_triangular(lower, columns.T, lower=True, check_finite=False).T


def _fitted(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (s, r) -> (t,), (r, t)
    """Return samples that tell functions in the span of Q apart, and what finds their coefficients from values there.

    They are pivots of Q's rows, and at least as many others, spread evenly.
    """
    s, r = Q.shape
    enough = max(FITTED * r, FEWEST)
    if s <= enough:
        return np.arange(s), Q.T / s
    pivots = qr(Q.T, mode="r", pivoting=True, check_finite=False)[1]
    others = np.sort(pivots[r:])
    extra = enough - r
    some = np.sort(np.concatenate([pivots[:r], others[np.arange(extra) * others.size // extra]]))
    return some, np.linalg.pinv(Q[some])


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
    functions, turns, parts = [], [], []
    for number, positions in enumerate(families.values()):
        found, turn, roots = _part(job, wish, tuple(positions), number, rng)
        functions.append(found)
        turns.append(beside(job.X, turn))
        parts.append(Part(np.array(positions), tuple(roots)))
    return _filled(job, Maps(tuple(functions), tuple(turns)), parts, rng)


def _part(
    job: Job, wish: Wish, positions: tuple[int, ...], number: int, rng: np.random.RandomState
) -> tuple[Functions, np.ndarray, list[np.ndarray]]:
    """Return the functions of kernels on the same columns, what makes a basis of them, and the roots of the cores."""
    count = wish.n_landmarks or (wish.rank if wish.tol is None else max(FIRST, wish.rank or 0))
    assert count is not None
    while True:
        sample = _drawn(job, wish, positions, count, rng)
        if wish.tol is None:
            assert wish.rank is not None
            pool = min(POOL * wish.rank, sample.X.shape[0])
            offers = sample.offered(pool)
            pairs = sample.chosen(offers, pool)
        else:
            enough, pairs = _enough(sample, wish)
            last = wish.n_landmarks is not None or not isinstance(wish.landmarks, str) or count >= job.X.shape[0]
            if not enough and not last and wish.rank is None:
                if 2 * count > MOST:
                    raise ValueError(
                        f"A kernel such as {sample.kernels[0].name} loses more than tol={wish.tol:g} of its trace at "
                        f"{count} landmarks: use a larger tol, or a rank."
                    )
                count = min(2 * count, job.X.shape[0])
                continue
        functions = sample.functions(pairs, number)
        turn, Q = sample.oriented(functions)
        if wish.tol is None and turn.shape[1] > (wish.rank or 0):
            axes = sample.leading(offers, Q, wish.rank or 0)
            turn, Q = turn @ axes, Q @ like(Q, axes)
        return functions, turn, sample.cores(Q, whole=wish.tol is not None)


def _drawn(job: Job, wish: Wish, positions: tuple[int, ...], count: int, rng: np.random.RandomState) -> _Sample:
    """Return landmarks, and samples to choose functions on."""
    kernels, n = tuple(job.kernels[k] for k in positions), job.X.shape[0]
    Z = draw_landmarks(wish.landmarks, count, kernels, job.X, rng)
    some = min(n, max(SAMPLES, PER_FUNCTION * max(POOL * (wish.rank or 0), Z.shape[0])))
    rows = np.arange(n) if some == n else indices(n, some, rng)
    return _Sample(job, positions, kernels, Z, job.X if some == n else take_rows(job.X, rows))


def _enough(sample: _Sample, wish: Wish) -> tuple[bool, list[tuple[int, int]]]:
    """Return the fewest functions in which no kernel loses more than the tolerance, and whether there are enough."""
    most = min(WIDER * sample.Z.shape[0], sample.X.shape[0], wish.rank or sample.X.shape[0])
    pairs = sample.chosen(sample.offered(most), most)
    functions = sample.functions(pairs)
    places = [(place, mark) for place, mark in sorted(pairs, key=lambda pair: pair[0])]
    order = [places.index(pair) for pair in pairs]  # columns of the functions, most telling first
    xp = namespace(anchor(sample.X))
    raw = to_host(cast(functions(sample.X), xp.float64))[:, order]
    Q = like(anchor(sample.X), np.linalg.qr(raw)[0] * sample.X.shape[0] ** 0.5)
    worst = sample.lost(Q).max(axis=0)
    met = worst <= wish.tol
    return bool(met.any()), pairs[: int(np.argmax(met)) + 1] if met.any() else pairs


def _filled(job: Job, maps: Maps, parts: list[Part], rng: np.random.RandomState) -> Factors:
    """Write the basis down in one pass over the samples, or find how to make it, and scale the kernels in it."""
    share = like(anchor(job.X), job.share)
    gram = BasisGram(_basis(job, maps), parts)
    mean = _mean_diagonals(job, share)
    for kernel, size in zip(job.kernels, mean, strict=True):
        if not np.isfinite(size):
            refuse_infinite(kernel)
    mean = _clipped(job, gram, mean, share)
    scales = _scales(job, gram, mean, share) / [kernel._price for kernel in job.kernels]
    kept, lost = np.flatnonzero(scales), _lost(job, maps, gram, rng)
    if kept.size < len(job.kernels):
        if not kept.size:
            return Factors(gram, kept, scales, lost, BasisMaps(maps, gram.parts))
        used = [place for place, part in enumerate(parts) if np.isin(part.kernels, kept).any()]
        if len(used) < len(parts):
            maps = maps.only(np.array(used))
        gram = gram.only(kept)
    gram = gram.rescaled(scales[kept])
    return Factors(gram, kept, scales, lost, BasisMaps(maps, gram.parts))


def _basis(job: Job, maps: Maps) -> FactorGram:
    """Return the basis at all samples: held where it fits, else made at every pass, in chunks where they come so."""
    r = sum(turn.shape[1] for turn in maps.mixes)
    if job.rows is not None:
        return ChunkedGram.of(job.rows, maps, stored=r <= job.most)
    if r > job.most:
        return RecomputedGram(maps, job.X)
    base = anchor(job.X)
    xp = namespace(base)
    dtype = getattr(xp, job.dtype)
    table = xp.empty((job.n, r), dtype=dtype, device=device_of(base))
    for rows, piece in job.chunks(maps.entries, "basis"):
        table[rows, :] = cast(maps.transform(piece), dtype)
    return LowRankGram(table, [turn.shape[1] for turn in maps.mixes])


def _mean_diagonals(job: Job, share: Array) -> np.ndarray:  # (m,)
    """Return the mean of each kernel's own diagonal."""
    if job.rows is not None:
        return job.rows.total(_diagonals, [job.kernels], [np.asarray(job.share)])
    return sum((_diagonals(X, job.kernels, share[rows]) for rows, X in pieces(job.X, 1)), np.zeros(len(job.kernels)))


def _diagonals(X: Any, kernels: list[Kernel], share: Array) -> np.ndarray:  # (m,)
    double = namespace(share).float64
    return np.array([float(share @ cast(kernel.diagonal(X), double)) for kernel in kernels])


def _clipped(job: Job, gram: BasisGram, mean: np.ndarray, share: Array) -> np.ndarray:  # (m,)
    """Return the mean diagonals, of what is left for kernels that may have had a negative part."""
    known = np.array([bool(kernel.psd) for kernel in job.kernels])
    return mean if known.all() else np.where(known, mean, gram.mean_diagonal(share))


def _scales(job: Job, gram: BasisGram, mean: np.ndarray, share: Array) -> np.ndarray:  # (m,)
    """Return the factor that gives each kernel the size asked for; 0 for kernels that have none."""
    size, noise = mean, np.zeros(mean.size)
    if job.normalize == "center":
        size = mean - gram.energies(share)
        noise = 100 * np.finfo(job.dtype).eps * mean
    alive = size > np.maximum(noise, 1e-150)
    if job.normalize in ("trace", "center"):
        return np.where(alive, 1.0 / np.where(alive, size, 1.0), 0.0)
    return alive.astype(float)


def _lost(job: Job, maps: Maps, gram: BasisGram, rng: np.random.RandomState) -> np.ndarray:  # (m,)
    """Return how far each kernel's diagonal is from its own, as a share of the trace, on some samples."""
    n = job.X.shape[0]
    looks = min(n, LOOK, max(LEAST, LOOKS // len(job.kernels)))
    some = take_rows(job.X, indices(n, looks, rng))
    double = namespace(anchor(some)).float64
    have = to_host(gram.on(maps.transform(some)).diagonal())
    own = np.stack([to_host(cast(kernel.diagonal(some), double)) for kernel in job.kernels], axis=1)
    whole = own.sum(axis=0)
    return np.where(whole > 0, np.abs(own - have).sum(axis=0) / np.where(whole > 0, whole, 1.0), 0.0)
