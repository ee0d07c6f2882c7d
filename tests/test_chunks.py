"""Rows in chunks: the answers of NumPy, from Dask arrays and DataFrames, from maps of files, and after lost workers."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelweave as kw
from kernelweave import chunks as chunks_module
from kernelweave import kernels as K
from kernelweave.chunks import read_chunks
from kernelweave.grams import ChunkedGram, RecomputedGram

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

N, CHUNK = 400, 90
BANK = K.rbf(gamma=[0.05, 0.3]) + K.linear() + K.rbf(gamma=0.5, on=[0, 1])
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True, scope="module")
def settings_of_dask():
    """Leave dask's settings as they were: clients that are closed out of turn do not."""
    before = deepcopy(dask.config.config)
    yield
    dask.config.config.clear()
    dask.config.config.update(before)


def draw(n=N, seed=0, dtype=float):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(dtype)
    return X, X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + 0.3 * rng.normal(size=n)


def in_chunks(values, size=CHUNK):
    return da.from_array(values, chunks=(size, *values.shape[1:]))


def machine(kind=kw.MKLClassifier, **params):
    return kind(BANK, random_state=0, **{"approximation": kw.Nystroem(rank=8), "tol": 1e-9, **params})


def targets():
    """Return estimators and targets of every task."""
    _, value = draw()
    labels, classes = (value > 0).astype(int), np.digitize(value, [-0.7, 0.7])
    event = np.stack([np.arange(N) % 3 > 0, np.exp(-value)], axis=1)
    return {
        "hinge": (machine(solver="interior", penalty="lp"), labels),
        "hinge l1 without intercept": (machine(solver="interior", penalty="l1", fit_intercept=False), labels),
        "logistic": (machine(loss="logistic", penalty="lp", solver="newton-cg"), labels),
        "classes": (machine(loss="squared_hinge", penalty="lp", solver="interior"), classes),
        "softmax": (machine(loss="logistic", multiclass="joint", penalty="lp"), classes),
        "joint margin": (machine(multiclass="joint", penalty="lp", tol=1e-7, solver="lagrangian"), classes),
        "squared": (machine(kw.MKLRegressor, loss="squared"), value),
        "two targets": (machine(kw.MKLRegressor, penalty="lp", loss="squared"), np.stack([value, -value], axis=1)),
        "insensitive": (machine(kw.MKLRegressor, penalty="lp", loss="epsilon_insensitive", solver="interior"), value),
        "survival": (machine(kw.MKLSurvival, penalty="lp", tol=1e-8), event),
    }


@pytest.mark.parametrize("task", targets())
def test_every_task_has_the_answer_of_numpy(task):
    (X, _), (model, y) = draw(), targets()[task]
    ours = pickle.loads(pickle.dumps(model)).fit(X, y)
    theirs = model.fit(in_chunks(X), in_chunks(y))
    assert theirs.dual_gap_ <= model.tol
    assert "in 5 chunks" in theirs.storage_
    assert theirs.objective_ == pytest.approx(ours.objective_, rel=2.0 * model.tol)
    strict = "l1" not in task  # whose objective hardly depends on the weights near the optimum
    assert_allclose(theirs.weights_, ours.weights_, atol=1e-8 if strict else 1e-6)
    assert_allclose(theirs.approximation_error_, ours.approximation_error_, atol=1e-10)
    predicted = theirs.predict(in_chunks(X, 150))
    assert isinstance(predicted, da.Array)
    assert predicted.chunks[0] == (150, 150, 100)
    assert_allclose(predicted.compute(), ours.predict(X), atol=1e-6)
    assert_allclose(theirs.predict(X), ours.predict(X), atol=1e-6)
    assert theirs.score(in_chunks(X), in_chunks(y)) == pytest.approx(ours.score(X, y), abs=1e-6)


@pytest.mark.parametrize("normalize", ["trace", "center", "diagonal", None])
def test_features_made_at_each_pass_are_the_same(normalize):
    X, value = draw()
    model = machine(normalize=normalize, penalty="lp", loss="squared_hinge", solver="interior")
    ours = model.fit(X, value > 0)
    weights, decisions = ours.weights_, ours.decision_function(X)
    for rows in (X, in_chunks(X)):
        theirs = model.set_params(memory=1000).fit(rows, value > 0)
        assert "recomputed from X at each pass" in theirs.storage_
        assert_allclose(theirs.weights_, weights, atol=1e-8)
        assert_allclose(theirs.decision_function(X), decisions, atol=1e-6)


def test_products_are_those_of_features_in_one_array(rng):
    X, _ = draw(dtype=np.float32)
    made = kw.Nystroem(rank=6).factorise(
        [k for kernel in BANK for k in kernel.resolve(X)], X, share=np.full(N, 1 / N), normalize="trace", random_state=0
    )
    held, rows = made.gram, read_chunks(in_chunks(X))
    grams = [RecomputedGram(made.maps, X), *(ChunkedGram.of(rows, made.maps, stored) for stored in (True, False))]
    theta, table, z = rng.random(N) * (rng.random(N) > 0.5), rng.normal(size=(N, 2)), rng.normal(size=held.columns)
    index = np.array([3, 17, 200, 390])
    for gram in grams:
        assert gram.shape == held.shape
        assert_allclose(gram.rmatvec(table), held.rmatvec(table), atol=2e-4)
        assert_allclose(gram.matvec(z), held.matvec(z), atol=2e-4)
        for some in (None, np.flatnonzero(theta)):
            matrix, sums = gram.moments(theta, some)
            assert_allclose(matrix, held.weighted(theta), atol=2e-4)
            assert_allclose(sums, held.rmatvec(theta), atol=2e-4)
        assert_allclose(gram.diagonal(), held.diagonal(), atol=2e-4)
        assert_allclose(gram.take(index).features, held.features[index], atol=2e-4)


def test_a_map_of_a_file_is_read_in_pieces(tmp_path):
    X, value = draw()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = machine(solver="interior", penalty="lp", memory=1000).fit(mapped, value > 0)
    assert "recomputed" in model.storage_
    held = machine(solver="interior", penalty="lp").fit(X, value > 0)
    assert_allclose(model.weights_, held.weights_, atol=1e-8)


def test_frames_weights_and_lists():
    pd = pytest.importorskip("pandas")
    X, value = draw()
    frame, y = pd.DataFrame(X, columns=list("abcd")), pd.Series(value > 0, name="y")
    weight = np.arange(N) % 3 * 1.0  # rows of weight zero are left out
    model = machine(loss="squared_hinge", penalty="lp", solver="interior")
    ours = pickle.loads(pickle.dumps(model)).fit(frame, y, weight)
    theirs = model.fit(dd.from_pandas(frame, npartitions=3), dd.from_pandas(y, npartitions=3), list(weight))
    assert list(theirs.feature_names_in_) == list("abcd")
    assert_allclose(theirs.weights_, ours.weights_, atol=1e-8)
    assert (theirs.predict(dd.from_pandas(frame, npartitions=2)).compute() == ours.predict(frame)).all()


@pytest.mark.parametrize("kind", ["parquet", "zarr"])
def test_what_dask_reads_from_disk(kind, tmp_path):
    X, value = draw()
    model = machine(penalty="lp", loss="squared_hinge", approximation=kw.SharedBasis(rank=10))
    if kind == "zarr":
        pytest.importorskip("zarr")
        in_chunks(X).to_zarr(tmp_path / "X.zarr")
        rows, y = da.from_zarr(tmp_path / "X.zarr"), in_chunks(value > 0)
    else:
        pytest.importorskip("pyarrow")
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abcd")).assign(y=value > 0)
        dd.from_pandas(frame, npartitions=5).to_parquet(tmp_path / "rows")
        table = dd.read_parquet(tmp_path / "rows")
        rows, y = table[list("abcd")], table["y"]
    theirs = pickle.loads(pickle.dumps(model)).fit(rows, y)
    ours = model.fit(in_chunks(X), in_chunks(value > 0))
    assert "in 5 chunks" in theirs.storage_
    assert_allclose(theirs.weights_, ours.weights_, atol=1e-8)


def test_landmarks_come_from_some_chunks_of_many_rows(monkeypatch):
    monkeypatch.setattr(chunks_module, "SAMPLE", 60)
    monkeypatch.setattr(chunks_module, "ENTRIES", 0)
    monkeypatch.setattr(chunks_module, "SAMPLED", 2)
    X, _ = draw(5000)
    sampled = read_chunks(in_chunks(X, 500)).sampled(np.random.RandomState(0))
    assert len(sampled.sample) == 60
    assert len(set(sampled.places // 500)) == 2
    assert_allclose(sampled.sample, X[sampled.places])


def hidden(values, sizes=True):
    """Return a Dask array with a NaN in its fourth chunk."""
    values = values.copy()
    values[3 * CHUNK + 5, 2] = np.nan
    return in_chunks(values)


REFUSALS = {
    "columns": (lambda X: da.from_array(X, chunks=(90, 2)), {}, "2 chunks along its columns"),
    "sizes": (lambda X: in_chunks(X)[in_chunks(X)[:, 0] > 0], {}, r"unknown size: call X.compute_chunk_sizes\(\)"),
    "NaN": (hidden, {}, r"NaN, in chunk 3 \(rows 270 to 359\)"),
    "words": (lambda X: in_chunks(X.astype(str)), {}, "must hold real numbers"),
    "exact kernels": (in_chunks, {"approximation": None}, "use kernels of samples and approximation='nystroem'"),
    "missing": (in_chunks, {"missing": "absent"}, "fill the gaps first"),
    "odds": (in_chunks, {"probability": True}, "use loss='logistic'"),
    "products": (in_chunks, {"penalty": "spectral"}, "needs features that are held in memory"),
    "no rows": (lambda X: in_chunks(X)[:0], {}, "no samples"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_bad_input_is_one_sentence(case):
    (X, value), (build, params, sentence) = draw(), REFUSALS[case]
    with pytest.raises((ValueError, TypeError), match=sentence):
        machine(**params).fit(build(X), value > 0 if case != "no rows" else [])


def test_targets_of_other_libraries_are_refused():
    torch = pytest.importorskip("torch")
    X, value = draw()
    with pytest.raises(TypeError, match="y is a torch Tensor and X"):
        machine().fit(in_chunks(X), torch.asarray(value > 0))


# --- workers -----------------------------------------------------------------------


def slow(block, seconds=0.0):
    time.sleep(seconds)
    return block


@contextmanager
def two_workers(direct=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB"
        )
        with cluster, distributed.Client(cluster, direct_to_workers=direct) as client:
            yield client


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture(params=[False, True], ids=["by the scheduler", "direct"])
def mortal(request):
    """A client of workers of its own, who may be killed."""
    with two_workers(request.param) as client:
        yield client


@pytest.mark.parametrize("memory", ["auto", 1000], ids=["kept by workers", "made at each pass"])
def test_a_worker_that_is_killed_costs_time_and_not_the_answer(client, memory):
    X, value = draw()
    ours = machine(loss="squared_hinge", penalty="lp", solver="newton", tol=1e-6).fit(X, value > 0)
    victim, killed = next(iter(client.run(os.getpid).values())), []

    def kill():
        time.sleep(0.4)
        os.kill(victim, signal.SIGKILL)
        killed.append(True)

    thread = threading.Thread(target=kill)
    thread.start()
    rows = in_chunks(X, 200).map_blocks(slow, seconds=0.02, dtype=float)
    theirs = machine(loss="squared_hinge", penalty="lp", solver="newton", tol=1e-6, memory=memory).fit(rows, value > 0)
    thread.join()
    assert killed
    assert theirs.dual_gap_ <= 1e-6
    assert_allclose(theirs.weights_, ours.weights_, atol=1e-8)


def kept_by_workers():
    """Features that workers hold, and the same here."""
    X, _ = draw()
    made = kw.Nystroem(rank=5).factorise([K.RBF(gamma=0.3)], X, share=np.full(N, 1 / N), normalize=None, random_state=0)
    return ChunkedGram.of(read_chunks(in_chunks(X, 200)), made.maps, stored=True), made.gram


def test_what_workers_keep_is_asked_for_without_a_task(client, monkeypatch):
    gram, plain = kept_by_workers()
    gram.rmatvec(np.ones(N))
    monkeypatch.setattr(chunks_module, "computed", None)
    assert_allclose(gram.rmatvec(np.ones(N)), plain.rmatvec(np.ones(N)), atol=1e-10)


def test_what_workers_keep_is_one_piece_for_each_thread_with_the_weights_of_numpy(client):
    client.wait_for_workers(2)  # one of them may have been killed just now
    X, value = draw()
    for approximation in (kw.Nystroem(rank=8), kw.SharedBasis(rank=10)):
        params = {"solver": "interior", "penalty": "lp", "approximation": approximation, "memory": "auto"}
        ours = machine(**params).fit(X, value > 0)
        theirs = machine(**params).fit(in_chunks(X, 50), value > 0)
        assert "in 2 chunks, kept by the workers" in theirs.storage_
        assert_allclose(theirs.weights_, ours.weights_, atol=1e-8)


def test_chunks_are_joined_as_far_as_workers_have_memory(client):
    sizes = np.full(40, 1000)
    groups = chunks_module._groups(sizes, 80)
    assert [len(group) for group in groups] == [20, 20]
    assert [i for group in groups for i in group] == list(range(40))
    assert [len(group) for group in chunks_module._groups(sizes, 10_000)] == [10, 10, 10, 10]  # 400 MB, 100 MB each
    assert chunks_module._groups(sizes[:2], 80) == []


def test_an_interrupt_returns_the_best_point(client):
    X, value = draw()
    rows = in_chunks(X, 200)

    def stop(iteration, certificate, point):
        raise KeyboardInterrupt

    made = kw.Nystroem(rank=5).factorise([K.RBF(gamma=0.3)], X, share=np.full(N, 1 / N), normalize=None, random_state=0)
    gram = ChunkedGram.of(read_chunks(rows), made.maps, stored=False)
    problem = kw.Problem(gram, kw.losses.SquaredHinge().bind(np.sign(value)), kw.penalties.Lp(2.0))
    with pytest.warns(RuntimeWarning, match="interrupted"):
        solution = kw.solve(problem, "newton", tol=1e-12, callbacks=[stop])
    assert solution.status.name == "INTERRUPTED"
    assert np.isfinite(solution.gap)


def test_nobody_is_waited_for_in_vain(client, monkeypatch):
    X, value = draw()
    with dask.config.set({"kernelweave.timeout": 0.5}):
        monkeypatch.setattr(chunks_module, "LOOK", 0.3)
        with pytest.raises(TimeoutError, match=r"more than 0\.5 seconds"):
            machine().fit(in_chunks(X, 200).map_blocks(slow, seconds=3.0, dtype=float), value > 0)
    persisted = client.persist(in_chunks(X, 200))
    fitted = machine(loss="squared_hinge", penalty="lp").fit(persisted + 0.0, value > 0)
    assert (fitted.predict(persisted).compute() == fitted.predict(X)).all()
    gram, _ = kept_by_workers()
    gram.rmatvec(np.ones(N))
    client.close()
    with pytest.raises(RuntimeError, match="has gone away"):
        gram.rmatvec(np.ones(N))
    with pytest.raises(RuntimeError, match="has gone away"):
        machine().fit(persisted, value > 0)


def test_holders_that_are_lost_with_their_worker_are_made_again(mortal):
    gram, plain = kept_by_workers()
    beta = np.linspace(-1.0, 1.0, N)
    assert_allclose(gram.rmatvec(beta), plain.rmatvec(beta), atol=1e-10)
    os.kill(next(iter(mortal.run(os.getpid).values())), signal.SIGKILL)
    assert_allclose(gram.rmatvec(beta), plain.rmatvec(beta), atol=1e-10)
    assert_allclose(gram.matvec(np.ones(5)), plain.matvec(np.ones(5)), atol=1e-10)


def slow_sum(block, seconds):
    time.sleep(seconds)
    return block.features.sum()


def test_a_holder_that_is_lost_while_it_works_is_asked_again(mortal):
    gram, plain = kept_by_workers()
    gram.blocks.total(slow_sum, [0.0])
    victim = next(iter(mortal.run(os.getpid).values()))
    thread = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    thread.start()
    assert_allclose(gram.blocks.total(slow_sum, [1.0]), plain.features.sum())
    thread.join()


def late(block, seconds, block_id=None):
    time.sleep(seconds[block_id[0]])
    return block


def kept_slowly(seconds):
    """Features of chunks that take some seconds each to be made, and the same here."""
    X, _ = draw()
    made = kw.Nystroem(rank=5).factorise([K.RBF(gamma=0.3)], X, share=np.full(N, 1 / N), normalize=None, random_state=0)
    chunks = da.map_blocks(late, in_chunks(X, N // 2), seconds, dtype=X.dtype)
    return ChunkedGram.of(read_chunks(chunks), made.maps, stored=True), made.gram


def end_of(client, gram, i):
    """Kill the worker that holds a chunk."""
    address = next(iter(client.who_has(distributed.futures_of(gram.blocks.parts[i])).values()))[0]
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)


@pytest.mark.parametrize("mortal", [False], indirect=True)
def test_a_holder_that_is_lost_while_others_are_made_first_is_made_again(mortal):
    gram, plain = kept_slowly([0.0, 3.0])
    thread = threading.Timer(1.0, end_of, (mortal, gram, 0))
    thread.start()
    assert_allclose(gram.rmatvec(np.ones(N)), plain.rmatvec(np.ones(N)), atol=1e-10)
    thread.join()


@pytest.mark.parametrize("mortal", [False], indirect=True)
def test_a_holder_that_is_lost_while_another_is_made_again_is_made_again_too(mortal):
    gram, plain = kept_slowly([0.0, 3.0])
    gram.rmatvec(np.ones(N))
    end_of(mortal, gram, 1)
    while gram.blocks._holders.there(1):
        time.sleep(0.05)
    thread = threading.Timer(1.0, end_of, (mortal, gram, 0))
    thread.start()
    assert_allclose(gram.rmatvec(np.ones(N)), plain.rmatvec(np.ones(N)), atol=1e-10)
    thread.join()


def too_late(block):
    raise TimeoutError("the disk did not answer")


@pytest.mark.parametrize("mortal", [False], indirect=True)
def test_what_takes_too_long_is_told_from_workers_that_die(mortal):
    gram, _ = kept_by_workers()
    gram.blocks.total(slow_sum, [0.0])
    with dask.config.set({"kernelweave.timeout": 1}), pytest.raises(TimeoutError, match="more than 1 seconds"):
        gram.blocks.total(slow_sum, [3.0])
    X, _ = draw()
    failing = read_chunks(da.map_blocks(too_late, in_chunks(X, 200), dtype=X.dtype))
    with dask.config.set({"kernelweave.timeout": 10}), pytest.raises(TimeoutError, match="the disk did not answer"):
        failing.each(len)


def test_work_of_which_workers_die_is_not_asked_for_again_and_again(mortal, monkeypatch):
    monkeypatch.setattr(chunks_module, "LOSSES", 1)
    gram, _ = kept_by_workers()
    with pytest.raises(MemoryError, match="died on the same chunk"):
        gram.blocks.each(_ended)


def _ended(block):
    os._exit(1)
