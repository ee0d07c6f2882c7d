"""Threads of the compiled loops: the same numbers on any number of them, none within others, new ones after a fork."""

import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
import threadpoolctl

import kernelweave as kw
from kernelweave import DenseGram, Problem, losses, penalties, solve, threads
from kernelweave import kernels as K
from kernelweave.grams import lowrank


@pytest.fixture
def two(monkeypatch):
    """Two threads for loops of any size."""
    monkeypatch.setattr(threads, "count", lambda: 2)
    monkeypatch.setattr(threads, "LARGE", 2)


def drawn(n=120, m=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    apart = ((X[:, None] - X) ** 2).sum(axis=2)
    stack = np.stack([np.exp(-gamma * apart) for gamma in np.logspace(-1, 1, m)], axis=2)
    return DenseGram(stack, 1.0 + rng.random(m)), np.sign(X[:, 0] + 0.3 * rng.normal(size=n))


def test_products_on_two_threads_are_those_of_their_definition(two):
    gram, _ = drawn()
    beta = np.random.default_rng(1).normal(size=120) * (np.arange(120) % 3 > 0)
    whole = np.einsum("ijk,j->ik", gram.stack, beta) * gram.scale
    support, rows, kernels = np.flatnonzero(beta), np.arange(7, 90), np.array([0, 2])
    np.testing.assert_allclose(gram.products(beta), whole, atol=1e-12)
    np.testing.assert_allclose(gram.energies(beta), beta @ whole, rtol=1e-12)
    part = gram.weighted_columns(beta[support], support, rows, kernels)
    np.testing.assert_allclose(part, whole[np.ix_(rows, kernels)], atol=1e-12)


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)])
def test_an_answer_is_the_same_to_the_last_bit_on_two_threads(monkeypatch, penalty):
    gram, y = drawn()
    problem = Problem(gram, losses.Hinge().bind(y, 5.0), penalty)
    monkeypatch.setattr(threads, "LARGE", 2)
    found = []
    for many in (1, 2, 3):
        monkeypatch.setattr(threads, "count", lambda many=many: many)
        found.append(solve(problem, "sqp", tol=1e-6))
    for other in found[1:]:
        assert np.array_equal(other.beta, found[0].beta) and np.array_equal(other.weights, found[0].weights)


def test_a_thread_has_no_threads_of_its_own():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(threads.count).result() == 1


def test_omp_num_threads_is_obeyed(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert threads.count() == 1


def test_ranges_cover_everything_once(two):
    assert threads.spread(lambda first, last: (first, last), 7, 10**9) == [(0, 3), (3, 7)]
    assert threads.spread(lambda first, last: (first, last), 1, 10**9) == [(0, 1)]


def test_work_done_ahead_comes_in_order_with_its_errors(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 2)

    def root(number):
        if number == 7:
            raise ValueError("seven")
        return float(np.sqrt(-1.0 if number == 3 else number))  # where errors are ignored, they are on all threads

    with np.errstate(invalid="ignore"):
        for entries in (0, 10**9):
            found = threads.in_order(root, range(9), entries, 2)
            np.testing.assert_array_equal([next(found) for _ in range(7)], np.sqrt([0, 1, 2, np.nan, 4, 5, 6]))
            with pytest.raises(ValueError, match="seven"):
                next(found)


def test_features_on_two_threads_make_the_same_matrix(monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(lowrank, "CHUNK", 100)
    monkeypatch.setattr(threads, "PIECE", 1)
    gram, theta = kw.grams.LowRankGram(rng.normal(size=(300, 8)), [3, 5]), rng.random(300)
    found = []
    for many in (1, 2):
        monkeypatch.setattr(threads, "count", lambda many=many: many)
        found.append(gram.weighted(theta))
    assert np.array_equal(*found)
    np.testing.assert_allclose(found[0], gram.features.T * theta @ gram.features, atol=1e-10)


def test_blas_has_one_thread_until_the_last_of_those_that_asked_is_done():
    def of_blas():
        return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before, first, second = of_blas(), ExitStack(), ExitStack()
        first.enter_context(threads.one_for_blas())
        second.enter_context(threads.one_for_blas())
        first.close()
        assert set(of_blas()) == {1}
        second.close()
        assert of_blas() == before and max(before) > 1


def test_matrices_made_ahead_are_few_where_they_are_large(monkeypatch):
    monkeypatch.setattr(lowrank, "CHUNK", 100)
    monkeypatch.setattr(lowrank, "AHEAD", 600)
    monkeypatch.setattr(threads, "PIECE", 1)
    monkeypatch.setattr(threads, "count", lambda: 64)
    for columns, most in ((4, 5), (100, 2)):
        made, gram = [], kw.grams.LowRankGram(np.ones((100 * 20 // columns, columns)), [columns])
        parts = gram._each(lambda piece, made=made: made.append(piece), gram.chunks())
        next(parts)
        parts.close()
        assert len(made) <= most + 1


@pytest.mark.parametrize("asked, threads_of", [("0", 1), ("²", 8), ("none", 8), ("-1", 8), (" 3 ", 3), ("4,2", 4)])
def test_numbers_of_threads_as_they_may_be_asked_for(monkeypatch, asked, threads_of):
    monkeypatch.setattr(threads, "cores", lambda: 8)
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert threads.count() == threads_of


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forked_off_waits_for_no_thread_of_the_other():
    threads._threads(2)
    with threads.one_for_blas(), threads._lock:
        child = os.fork()
        if not child:
            signal.alarm(10)
            with threads.one_for_blas():
                asked = len(threads._limits)
            os._exit(asked != 1 or threads._threads(2).submit(int, 7).result() != 7)
    assert os.waitpid(child, 0)[1] == 0


def test_compiling_is_told_aloud_once(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("kernelweave"), "disabled", False)  # as others' settings of logs may leave it
    from types import SimpleNamespace

    from kernelweave import compiled
    from kernelweave.compiled import stacks

    told, event = compiled.Told(), SimpleNamespace(data={"dispatcher": stacks.energies})
    other = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=len)})
    other.data["dispatcher"].py_func = SimpleNamespace(__module__="elsewhere", __name__="other")
    with caplog.at_level("INFO", "kernelweave"):
        for happens in (event, other, event, event):
            told.on_start(happens)
            told.on_end(happens)
            told.seconds += 2.0
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "INFO", "INFO"]
    assert "compiled energies: 0.0 s" in caplog.text


def computed(many, monkeypatch, work):
    monkeypatch.setattr(threads, "LARGE", 2)
    monkeypatch.setattr(threads, "PIECE", 1)
    monkeypatch.setattr(threads, "count", lambda: many)
    return work()


def test_kernels_computed_on_two_threads_are_the_same_to_the_last_bit(monkeypatch):
    from kernelweave.assemble import memory, stacks
    from kernelweave.kernels import as_kernels

    monkeypatch.setattr(memory, "BUFFER", 100_000)
    X = np.random.default_rng(0).normal(size=(150, 3))
    mixed = [*K.rbf(gamma=[0.1, 1.0]), *K.linear(), K.Polynomial(degree=2), K.Laplacian(), K.Cosine()]
    bank = [kernel for item in as_kernels(mixed) for kernel in item.resolve(X, None, None, np.ones(150), None)]
    one, two = (computed(many, monkeypatch, lambda: stacks._filled(bank, X)) for many in (1, 2))
    assert np.array_equal(one, two)
    np.testing.assert_allclose(one[:, :, 0], bank[0](X), atol=1e-14)


def test_kernels_with_code_of_the_users_are_computed_on_the_main_thread(monkeypatch):
    from kernelweave.assemble import memory

    monkeypatch.setattr(memory, "BUFFER", 10_000)
    X, seen = np.random.default_rng(0).normal(size=(60, 2)), set()

    def product(A, B):
        seen.add(threading.current_thread() is threading.main_thread())
        return A @ B.T

    model = kw.MKLClassifier([K.Callable(product, psd=True), *K.linear()])
    computed(2, monkeypatch, lambda: model.fit(X, X[:, 0] > 0))
    assert seen == {True}


def test_columns_on_demand_are_the_same_to_the_last_bit_on_two_threads(monkeypatch):
    X, beta = np.random.default_rng(0).normal(size=(150, 3)), np.random.default_rng(1).normal(size=150)
    weights, found = np.array([0.5, 2.0, 1.0]), []
    for many in (1, 2):
        gram = kw.grams.CachedGram([K.RBF(gamma=0.1), K.RBF(gamma=1.0), K.Linear()], X, memory=2**20)
        found.append(computed(many, monkeypatch, lambda gram=gram: [
            gram.energies(beta), gram.decision(beta, weights), gram.products(beta),
            gram.combine(np.arange(90), weights), gram.mixed_columns(np.arange(80), weights),
        ]))  # fmt: skip
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)
