"""Rows that come in Dask chunks: sums over them, and every wait. The only file that names dask."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import time
import uuid
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

BRANCHES = 8  # sums that are added up by one task
LOOK = 1.0  # seconds between two looks at the cluster while waiting for it
WORKERS = 60.0  # seconds without a worker after which nobody is expected any more
PATIENCE = 3600.0  # seconds that a pass over the rows may take, unless dask.config has kernelweave.timeout
SAMPLE = 50_000  # rows from which landmarks and widths are found
SAMPLED = 32  # chunks that these are taken from, if there are more rows
ENTRIES = 2**24  # entries of those rows, at most
GONE = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError", "ClosedClientError")
JOINED = 2**28  # bytes of chunks that are kept as one, at most: beyond that a task is long enough
PART = 0.1  # of the memory of a worker, how much such a chunk may take: its pieces lie beside it while it is made
LOSSES = 4  # times that a worker may die in the same pass over what workers keep
LOST = "Worker holding Actor was lost"  # as Dask says it
AWAY = "The Dask client that holds the data, or the fit, has gone away: connect a new one, load X again, fit."
DIED = (
    "Several Dask workers died on the same chunk, mostly for lack of memory: use smaller chunks, as by X.rechunk, or "
    "workers with more memory."
)
SHARE = 0.35  # of the memory of the workers, how much features may take: beyond 0.6 they would write to disk


def is_chunked(values: Any) -> bool:
    """Whether something is a Dask array, Series or DataFrame."""
    return type(values).__module__.partition(".")[0] == "dask" and hasattr(values, "ndim")


@dataclass(frozen=True)
class Recipe:
    """What is made of the rows of a chunk before anything else is done with it."""

    work: Callable[..., Any]
    shared: tuple[Any, ...]
    first: Recipe | None = None

    def __call__(self, part: Any, number: int, start: int) -> Any:
        """Return it for a chunk, whose number and first row are for sentences."""
        part = part if self.first is None else self.first(part, number, start)
        return self.work(part, *self.shared, number, start)


@dataclass(frozen=True)
class Chunks:
    """Rows in chunks, each made by a task where a worker is free; what comes back is sums, or numbers for rows.

    A vector with an entry for each row is an array here, of which every task is sent its part. Nothing is left on a
    worker that could not be made again, so a worker that is lost costs time and not the answer.
    """

    parts: Sequence[Any]  # delayed: the rows of each chunk, or what was made of them
    sizes: np.ndarray  # rows of each
    columns: int
    dtype: np.dtype
    recipe: Any = None  # delayed: what to make of each chunk first
    picks: Sequence[np.ndarray | None] | None = None  # rows of each that count, None for all
    numbers: Sequence[tuple[int, int]] = ()  # number and first row of each, as the user sees them
    sample: Any = None  # some of the rows, once they were asked for
    places: Any = None  # positions of these among all rows
    _ingredients: Any = None  # the recipe, not delayed
    _holders: Any = None  # of chunks that workers keep: whom to ask

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.sizes.sum()), self.columns

    @property
    def ends(self) -> np.ndarray:
        """Where each chunk ends among the rows."""
        return np.cumsum(self.sizes)

    def _pass(self, work: Callable[..., Any], shared: Sequence[Any], split: Sequence[np.ndarray]) -> tuple[str, dict]:
        """Return the tasks of one pass, under a name of their own: ``work(chunk, *shared, *rows of split)`` of each."""
        name, stops = f"{work.__name__.strip('_')}-{uuid.uuid4().hex}", self.ends.tolist()
        recipe, picks = getattr(self.recipe, "key", None), self.picks or [None] * len(self.parts)
        tasks = {}
        for i, (part, pick, number) in enumerate(zip(self.parts, picks, self.numbers, strict=True)):
            rows = slice(stops[i] - int(self.sizes[i]), stops[i])
            own = self._sources[i]
            given = Given(work, pick, number, tuple(shared), tuple(values[rows] for values in split), own)
            tasks[(name, i)] = (_work, part.key if own is None else None, recipe, given)
        return name, {**self._graph, **tasks}

    @cached_property
    def _graph(self) -> dict[Any, Any]:
        """The tasks that others depend on: of the recipe, and of chunks that are not made in place."""
        shared = [part for part, own in zip(self.parts, self._sources, strict=True) if own is None]
        return graph_of([*shared, *([] if self.recipe is None else [self.recipe])])

    @cached_property
    def _sources(self) -> list[Source | None]:
        """How each chunk is made, where that is nobody else's business: then it is made where it is used, and freed."""
        from dask.optimization import cull

        whole = graph_of(self.parts)
        graphs = [cull(whole, [part.key])[0] for part in self.parts]
        held = any(type(task).__name__ == "Future" for task in whole.values())
        if held or sum(map(len, graphs)) > len(whole):
            return [None] * len(self.parts)
        return [Source(graph, part.key) for graph, part in zip(graphs, self.parts, strict=True)]

    def total(self, work: Callable[..., Any], shared: Sequence[Any] = (), split: Sequence[np.ndarray] = ()) -> Any:
        """Return the sum over chunks of arrays, or of tuples of arrays, added up in a tree."""
        if self._holders is not None and len(self.parts) <= BRANCHES:
            return _added(self._asked(work, shared, split))
        name, tasks = self._pass(work, shared, split)
        level = [(name, i) for i in range(len(self.parts))]
        while len(level) > 1:
            groups = [level[start : start + BRANCHES] for start in range(0, len(level), BRANCHES)]
            level = [(f"sum-{len(groups)}-{name}", i) for i in range(len(groups))]
            tasks.update({key: (_added, group) for key, group in zip(level, groups, strict=True)})
        return computed([_named(level[0], tasks)])[0]

    def each(self, work: Callable[..., Any], shared: Sequence[Any] = (), split: Sequence[np.ndarray] = ()) -> list[Any]:
        """Return what ``work`` makes of each chunk."""
        if self._holders is not None:
            return self._asked(work, shared, split)
        name, tasks = self._pass(work, shared, split)
        return computed([_named((name, i), tasks) for i in range(len(self.parts))])

    def _asked(self, work: Callable[..., Any], shared: Sequence[Any], split: Sequence[np.ndarray]) -> list[Any]:
        """Return the same from those who hold the chunks."""
        bounds = [slice(end - size, end) for end, size in zip(self.ends.tolist(), self.sizes.tolist(), strict=True)]
        return asked(self._holders, work, [(*shared, *(values[rows] for values in split)) for rows in bounds])

    def made(
        self,
        work: Callable[..., Any],
        shared: Sequence[Any],
        store: bool,
        join: Callable[[list[Any]], Any] | None = None,
        row_bytes: int = 0,
    ) -> Chunks:
        """Return chunks of what ``work`` makes of each, made again at every pass, or once and kept by the workers.

        ``work`` is given the chunk's number, and that of its first row, after what is shared. With ``join`` what is
        kept by workers is joined to one for each of their threads, where a row takes ``row_bytes``.
        """
        first = None if self.recipe is None else self._ingredients
        recipe = Recipe(work, tuple(shared), first)
        made = replace(self, recipe=kept([constant(recipe)])[0], _ingredients=recipe, _holders=None)
        if not store:
            return made
        name, tasks = made._pass(_itself, (), ())
        keys, sizes, numbers = [(name, i) for i in range(len(self.parts))], self.sizes, self.numbers
        groups = [] if join is None else _groups(self.sizes, row_bytes)
        if groups:
            tasks.update({(f"joined-{name}", g): (join, [keys[i] for i in group]) for g, group in enumerate(groups)})
            keys = [(f"joined-{name}", g) for g in range(len(groups))]
            sizes = np.array([self.sizes[group].sum() for group in groups])
            numbers = [self.numbers[group[0]] for group in groups]
        parts = kept([_named(key, tasks) for key in keys])
        bare = replace(made, recipe=None, picks=None, _ingredients=None)
        holders = None if _client() is None else Holders(parts)
        return replace(bare, parts=parts, sizes=sizes, numbers=numbers, _holders=holders)

    def only(self, rows: np.ndarray) -> Chunks:
        """Return the rows at some increasing positions."""
        found = []
        for i, own in enumerate(self._within(rows)):
            if own.size:
                before = None if self.picks is None else self.picks[i]
                pick = before if own.size == self.sizes[i] else own if before is None else before[own]
                found.append((self.parts[i], own.size, pick, self.numbers[i]))
        parts, sizes, picks, numbers = zip(*found, strict=True)
        few = replace(self, parts=parts, sizes=np.array(sizes), picks=picks, numbers=numbers, _holders=None)
        return replace(few, sample=None, places=None)

    def _within(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the positions within each chunk of increasing positions among all rows."""
        places = np.concatenate([[0], np.searchsorted(rows, self.ends)])
        for start, end, first in zip(places[:-1], places[1:], self.ends - self.sizes, strict=True):
            yield rows[start:end] - first

    def sampled(self, rng: np.random.RandomState) -> Chunks:
        """Return the same with rows that stand for all: all of them if they are few, else rows of some chunks."""
        n = self.shape[0]
        most = int(min(SAMPLE, max(ENTRIES // max(self.columns, 1), 2000)))
        rows = np.arange(n) if n <= most else self._drawn(most, rng)
        few = self.made(checked, [], store=False).only(rows)
        return replace(self, sample=np.concatenate(few.each(_itself)), places=rows)

    def _drawn(self, most: int, rng: np.random.RandomState) -> np.ndarray:
        """Return positions of rows drawn from some chunks."""
        chosen = np.sort(rng.permutation(self.sizes.size)[:SAMPLED])
        starts, sizes = (self.ends - self.sizes)[chosen], self.sizes[chosen]
        counts = np.minimum(sizes, -(-most // chosen.size))
        picks = [
            start + np.sort(rng.choice(size, count, replace=False))
            for start, size, count in zip(starts, sizes, counts, strict=True)
        ]
        return np.concatenate(picks)


def read_chunks(X: Any) -> Chunks:
    """Return the rows of a Dask array or DataFrame in chunks, or say what is wrong with it.

    Examples
    --------
    >>> import dask.array as da
    >>> from kernelweave.chunks import read_chunks
    >>> read_chunks(da.ones((10, 3), chunks=(4, 3))).sizes.tolist()
    [4, 4, 2]
    """
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, (n_samples, n_features); it has {X.ndim}.")
    if hasattr(X, "columns"):
        return _read_frame(X)
    if X.numblocks[1] > 1:
        raise ValueError(
            f"X has {X.numblocks[1]} chunks along its columns, and a row must be whole: use X.rechunk({{1: -1}})."
        )
    if np.isnan(np.sum(X.chunks[0])):
        raise ValueError("X has chunks of unknown size: call X.compute_chunk_sizes() first.")
    if not isinstance(X._meta, np.ndarray):
        raise TypeError(f"X has chunks of {type(X._meta).__name__}, and they must be NumPy arrays: convert them first.")
    _check_kinds([X.dtype])
    sizes = np.array(X.chunks[0], dtype=np.int64)
    return _without_empty(_apart(X), sizes, X.shape[1], _float_of(X.dtype))


def _apart(X: Any) -> list[Any]:
    """Return the chunks of a Dask array or DataFrame, delayed: in as few tasks as can be, if no worker holds any."""
    plain = np.ravel(X.to_delayed(optimize_graph=False)).tolist()
    held = any(type(task).__name__ == "Future" for task in dict(plain[0].__dask_graph__()).values())
    return plain if held else np.ravel(X.to_delayed()).tolist()


def _read_frame(X: Any) -> Chunks:
    """Return the rows of a Dask DataFrame; how many each partition has is counted first."""
    from dask import delayed

    _check_kinds(list(X._meta.dtypes))
    parts = _apart(X)
    sizes = np.array(computed([delayed(len)(part) for part in parts]), dtype=np.int64)
    kinds = {np.dtype(kind) for kind in X._meta.dtypes}
    return _without_empty(parts, sizes, len(X._meta.columns), _float_of(np.result_type(*kinds)))


def _check_kinds(kinds: Sequence[Any]) -> None:
    for kind in kinds:
        if getattr(kind, "kind", "O") not in "biuf" or not isinstance(kind, np.dtype):
            raise TypeError(f"X must hold real numbers in Dask chunks; got {kind}: convert it first.")


def _float_of(dtype: Any) -> np.dtype:
    return np.dtype(dtype if dtype in (np.float32, np.float64) else np.float64)


def _without_empty(parts: Sequence[Any], sizes: np.ndarray, columns: int, dtype: np.dtype) -> Chunks:
    """Return the chunks that have rows, as contiguous arrays of floating point."""
    n = int(sizes.sum())
    if not n or not columns:
        raise ValueError(f"X holds no samples or no features, its shape is {(n, columns)}: give at least one of each.")
    starts = np.cumsum(sizes) - sizes
    full = [i for i in range(len(parts)) if sizes[i]]
    numbers = [(i, int(starts[i])) for i in full]
    chunks = Chunks([parts[i] for i in full], sizes[full], columns, dtype, numbers=numbers)
    return chunks.made(_plain, [dtype.name], store=False)


# -- tasks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """The tasks that one chunk is made by."""

    graph: Any
    key: Any

    def made(self) -> Any:
        """Return the chunk."""
        from dask import get

        return get(self.graph, self.key)


@dataclass(frozen=True)
class Given:
    """What a task is to do with its chunk; a record, in which no scheduler looks for names of other tasks."""

    work: Callable[..., Any]
    pick: np.ndarray | None
    number: tuple[int, int]
    shared: tuple[Any, ...]
    split: tuple[np.ndarray, ...]
    source: Source | None


def _work(part: Any, recipe: Recipe | None, given: Given) -> Any:
    """Make of a chunk what its recipe says, and do what is to be done with it."""
    part = part if given.source is None else given.source.made()
    part = part if given.pick is None else _some(part, given.pick)
    return given.work(part if recipe is None else recipe(part, *given.number), *given.shared, *given.split)


def graph_of(values: Sequence[Any]) -> dict[Any, Any]:
    """Return the tasks of delayed things."""
    tasks: dict[Any, Any] = {}
    for value in values:
        tasks.update(dict(value.__dask_graph__()))
    return tasks


def _named(key: Any, tasks: dict[Any, Any]) -> Any:
    from dask.delayed import Delayed

    return Delayed(key, tasks)


def constant(value: Any) -> Any:
    """Return something as a task of its own, so that it is sent to every worker once."""
    name = f"recipe-{uuid.uuid4().hex}"
    return _named(name, {name: (_Always(value),)})


class _Always:
    """A function that returns the same thing always."""

    def __init__(self, value: Any):
        self.value = value

    def __call__(self) -> Any:
        return self.value


def _plain(part: Any, dtype: str, number: int, start: int) -> np.ndarray:
    return np.ascontiguousarray(part, dtype=dtype)


def _some(part: Any, rows: np.ndarray) -> Any:
    return part[rows] if isinstance(part, np.ndarray) else part.take(rows)


def _itself(part: Any) -> Any:
    return part


def checked(part: np.ndarray, number: int, start: int) -> np.ndarray:
    """Return a chunk, or refuse NaN and infinity in it, with its number and its rows."""
    if np.isfinite(part.sum()) or np.all(np.isfinite(part)):
        return part
    what, fix = ("NaN", "fill") if np.any(np.isnan(part)) else ("infinity", "replace")
    raise ValueError(
        f"Input X contains {what}, in chunk {number} (rows {start} to {start + len(part) - 1}): {fix} or drop those "
        "rows."
    )


def _added(values: list[Any]) -> Any:
    if isinstance(values[0], tuple):
        return tuple(_added(list(parts)) for parts in zip(*values, strict=True))
    if isinstance(values[0], list):
        return [_added(list(parts)) for parts in zip(*values, strict=True)]
    total = values[0] + 0.0
    for value in values[1:]:
        total += value
    return total


# -- waiting ----------------------------------------------------------------------------------------------


def gathered(values: Any) -> Any:
    """Return Dask targets, weights or predictions as what they are made of, anything else as it is."""
    return computed([values])[0] if is_chunked(values) else values


def computed(values: Sequence[Any]) -> list[Any]:
    """Return the values of delayed things: by the workers of the present client, or by threads without one."""
    client = _client()
    if client is None:
        with _told():
            from dask import compute

            return list(compute(*values))
    return _waited(client, list(values))


def _client() -> Any:
    """Return the present Dask client, or None without one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.get_client(timeout=LOOK)
    except ValueError:
        return None
    return client if client.status == "running" else None


def kept(parts: Sequence[Any]) -> list[Any]:
    """Return delayed things that are computed once, and kept by whoever computes them."""
    from dask import persist

    if _client() is None:
        return [constant(part) for part in computed(parts)]
    with _told(), _quiet():
        return list(persist(*parts))


def _waited(client: Any, values: list[Any]) -> list[Any]:
    """Return values once they are there; say so if nobody computes them, or if they take too long."""
    with _told(), _quiet():
        return _arrived(client, client.compute(values))


def _arrived(client: Any, futures: list[Any]) -> list[Any]:
    """Return what futures stand for, once it is there."""
    begun = seen = time.monotonic()
    answer = asyncio.run_coroutine_threadsafe(client.gather(futures, asynchronous=True), client.loop.asyncio_loop)
    try:
        while not concurrent.futures.wait([answer], timeout=LOOK).done:
            seen = _look(client, begun, seen)
        return list(answer.result())
    except BaseException:
        if client.status == "running":
            client.cancel(futures)
        raise


def _look(client: Any, begun: float, seen: float) -> float:
    """Return when a worker was last seen, or say why waiting is in vain."""
    from dask import config
    from dask.utils import parse_timedelta

    now = time.monotonic()
    if client.status != "running":
        raise RuntimeError("The Dask client has gone away in the middle of a fit: connect a new one and fit again.")
    if client.scheduler_info().get("workers"):  # which a client on its way out no longer knows
        seen = now
    if now - seen > WORKERS:
        raise RuntimeError(
            f"No Dask worker has been there for {WORKERS:g} seconds: start some, or close the client to use threads."
        )
    limit = parse_timedelta(config.get("kernelweave.timeout", PATIENCE))
    if now - begun > limit:
        raise TimeoutError(
            f"A pass over the rows has taken more than {limit:g} seconds: use more workers or smaller chunks, or a "
            "longer dask.config.set({'kernelweave.timeout': seconds})."
        )
    return seen


@contextmanager
def _told() -> Iterator[None]:
    """Say in a sentence that a client has gone, or that workers die of a chunk."""
    try:
        yield
    except (Exception, CancelledError) as error:
        kind = type(error).__name__
        if kind in GONE or str(error).startswith("Missing dependency"):
            raise RuntimeError(AWAY) from error
        if kind == "KilledWorker":
            raise MemoryError(DIED) from error
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Let vectors of the rows travel in graphs: they are new at every pass, and sent to where they are used."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
        yield


def cluster_memory() -> float | None:
    """Return the bytes that features may take on the workers of the present client; None without one."""
    client = _client()
    if client is None:
        return None
    return SHARE * sum(worker["memory_limit"] for worker in client.scheduler_info()["workers"].values())


def _groups(sizes: np.ndarray, row_bytes: int) -> list[list[int]]:
    """Return which neighbouring chunks are best kept as one, so that every thread has one; none where none are."""
    client = _client()
    workers = list(client.scheduler_info()["workers"].values()) if client else []
    if not workers:
        return []
    threads = sum(worker["nthreads"] for worker in workers)
    most = min(JOINED, PART * min(worker["memory_limit"] or np.inf for worker in workers))
    count = max(threads, int(np.ceil(sizes.sum() * row_bytes / most)))
    if count >= sizes.size:
        return []
    own = ((np.cumsum(sizes) - 0.5 * sizes) * count / sizes.sum()).astype(int)  # by where a chunk's middle lies
    return [np.flatnonzero(own == g).tolist() for g in np.unique(own)]


# -- chunks that are kept -----------------------------------------------------------------------------------


class _Holder:
    """A chunk in the memory of a worker, and a thread that works on it when asked: what is asked waits in no queue."""

    def __init__(self, part: Any):
        self.part, self.thread = part, concurrent.futures.ThreadPoolExecutor(1)

    async def work(self, work: Callable[..., Any], *given: Any) -> Any:
        """Return what ``work`` makes of the chunk."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, partial(work, self.part, *given))


class Lost(Exception):
    """A holder was lost with its worker."""


@contextmanager
def _noticed() -> Iterator[None]:
    """Raise `Lost` where Dask says that a holder is."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(LOST):
            raise
        raise Lost from error


class Holders:
    """Who holds each of some chunks that workers keep.

    They are Dask's actors, which are asked without a task: a pass takes a few milliseconds less. One that is lost with
    its worker is made again from its chunk, which the scheduler has made again elsewhere.
    """

    def __init__(self, parts: Sequence[Any]):
        self.parts = parts
        self.futures: list[Any] = [None] * len(parts)
        self.actors: list[Any] = [None] * len(parts)

    def there(self, i: int) -> bool:
        """Whether a holder is known, and was not lost as far as the scheduler knows."""
        return self.actors[i] is not None and self.futures[i].status == "finished"

    def placed(self, client: Any) -> None:
        """Have those that are missing made where their chunks are; `Lost` where one is lost meanwhile."""
        from distributed import futures_of

        missing = [i for i in range(len(self.parts)) if not self.there(i)]
        for i in missing:
            self.forget(i)
            self.futures[i] = client.submit(_Holder, futures_of(self.parts[i])[0], actor=True, pure=False)
        with _noticed():
            made = _arrived(client, [self.futures[i] for i in missing]) if missing else []
        for i, actor in zip(missing, made, strict=True):
            self.actors[i] = actor

    def called(self, i: int, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """Return the answer to come of a holder; `Lost` if it was lost."""
        with _noticed():
            return self.actors[i].work(work, *given)

    def forget(self, i: int) -> None:
        """Count a holder as lost."""
        self.futures[i] = self.actors[i] = None


def asked(holders: Holders, work: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return what ``work`` makes of each chunk and what is given for it, from those who hold them."""
    client = _client()
    if client is None:
        raise RuntimeError(AWAY)
    found: dict[int, Any] = {}
    for _ in range(LOSSES):
        with _told(), _quiet(), suppress(Lost):
            holders.placed(client)
            calls = {}
            for i, own in enumerate(given):
                if i not in found:
                    with suppress(Lost):
                        calls[i] = holders.called(i, work, own)
            for i, call in calls.items():
                try:
                    found[i] = _answer(client, holders, i, call)
                except Lost:
                    holders.forget(i)
        if len(found) == len(given):
            return [found[i] for i in range(len(given))]
    raise MemoryError(DIED)


def _answer(client: Any, holders: Holders, i: int, call: Any) -> Any:
    """Return what a holder answers; `Lost` if it is, in words if waiting is in vain."""
    begun = seen = time.monotonic()
    while True:
        try:
            return call.result(timeout=LOOK)
        except TimeoutError:
            if call.done():
                return call.result()
            seen = _look(client, begun, seen)
            if not holders.there(i):
                raise Lost from None
        except OSError as error:  # nobody there
            raise Lost from error


# -- predictions ------------------------------------------------------------------------------------------


def lazily(model: Any, method: str, X: Any) -> Any:
    """Return what a method of a model says of Dask rows, as a Dask array of the same chunks, not computed yet."""
    import dask.array as da
    from dask import delayed

    framed = hasattr(X, "columns")
    one = X._meta_nonempty.iloc[:1] if framed else np.zeros((1, X.shape[1]), dtype=_float_of(X.dtype))
    like = np.asarray(getattr(model, method)(one))
    if not framed and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    parts = _apart(X)
    sizes = [np.nan] * len(parts) if framed else X.chunks[0]
    ask, whom = delayed(_ask, pure=False, traverse=False), delayed(model, pure=False, traverse=False)
    blocks = [
        da.from_delayed(ask(part, whom, method, like), (size, *like.shape[1:]), dtype=like.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return da.concatenate(blocks)


def _ask(part: Any, model: Any, method: str, like: np.ndarray) -> np.ndarray:
    return np.asarray(getattr(model, method)(part)) if len(part) else like[:0]
