"""Laws of representations: every builder in GRAMS equals plain numpy on the kernels it was given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelweave import grams
from kernelweave.grams import DenseGram
from registry import APPROXIMATIONS, GRAMS, VIEWS, exported, label, names

N, M = 23, 7
each_gram = pytest.mark.parametrize("build", GRAMS, ids=label)
each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
each_scale = pytest.mark.parametrize("scale", [None, np.linspace(0.5, 3.0, M)], ids=["plain", "scaled"])


def stack_of(dtype=np.float64, n=N, m=M):
    """Return positive semidefinite kernels, exactly so in either precision, samples first."""
    points = np.round(4.0 * np.random.default_rng(3).normal(size=(n, m, 4))) / 4.0
    return np.ascontiguousarray(np.einsum("ikd,jkd->ijk", points, points), dtype=dtype)


def pair(build, dtype, scale):
    """Return a representation and the same kernels as a plain float64 array."""
    stack = stack_of(dtype)
    plain = stack.astype(float) * (1.0 if scale is None else scale)
    return build(stack, scale), plain


def sparse_duals(rng, zeros=0.5):
    return rng.normal(size=N) * (rng.random(N) > zeros)


def having(gram, *needed):
    """Skip a representation that lacks a capability."""
    missing = [name for name in needed if not hasattr(gram, name)]
    if missing:
        pytest.skip(f"{type(gram).__name__} has no {missing[0]}")


def test_every_representation_is_registered():
    kernels = names(build(stack_of(), None) for build in GRAMS) | {view.__name__ for view in VIEWS}
    assert exported(grams) == kernels | names(APPROXIMATIONS)


@each_gram
@each_dtype
@each_scale
def test_two_products(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    assert gram.shape == (N, M)
    for zeros in (0.0, 0.5, 0.9, 1.0):
        beta = sparse_duals(rng, zeros)
        for weights in (rng.random(M), np.eye(M)[2], np.zeros(M), rng.random(M) * (np.arange(M) < 3)):
            assert_allclose(gram.matvec(beta, weights), (K @ weights) @ beta, rtol=1e-11, atol=1e-12)
        assert_allclose(gram.quad(beta), np.einsum("i,ijk,j->k", beta, K, beta), rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_spread(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    having(gram, "spread")
    for size in (0, 1, 4, 6, 11):
        index, delta = rng.choice(N, size, replace=False), rng.normal(size=size)
        expected = np.einsum("s,jsk->jk", delta, K[:, index])
        rows, kernels = rng.permutation(N)[:9], rng.permutation(M)[:3]
        assert_allclose(gram.spread(delta, index), expected, rtol=1e-11, atol=1e-12)
        assert_allclose(gram.spread(delta, index, rows), expected[rows], rtol=1e-11, atol=1e-12)
        for some in (np.arange(N), rows):
            part = gram.spread(delta, index, some, kernels)
            assert_allclose(part, expected[np.ix_(some, kernels)], rtol=1e-11, atol=1e-12)
        part = gram.spread(delta, index, kernels=kernels)
        assert_allclose(part, expected[:, kernels], rtol=1e-11, atol=1e-12)


@each_gram
def test_spread_over_more_than_one_chunk(build, rng):
    gram = build(stack_of(n=70, m=80), None)
    having(gram, "spread")
    index, delta = np.arange(0, 70, 3), rng.normal(size=24)
    expected = np.einsum("s,jsk->jk", delta, stack_of(n=70, m=80)[:, index])
    assert_allclose(gram.spread(delta, index), expected, rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_combine(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    having(gram, "combine")
    index = rng.permutation(N)[:10]
    for weights in (rng.random(M), np.eye(M)[1], rng.random(M) * (np.arange(M) < 2), np.zeros(M)):
        expected = (K @ weights)[np.ix_(index, index)]
        assert_allclose(gram.combine(index, weights), expected, rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_block(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    having(gram, "block")
    index, kernels = rng.permutation(N)[:8], rng.permutation(M)[:4]
    block = gram.block(index, kernels)
    assert block.dtype == np.float64
    assert_allclose(block, K[np.ix_(index, index, kernels)].transpose(0, 2, 1), rtol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_diagonal(build, dtype, scale):
    gram, K = pair(build, dtype, scale)
    having(gram, "diagonal")
    assert_allclose(gram.diagonal(), np.einsum("iik->ik", K), rtol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_take_is_the_same_kernels_on_fewer_samples(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    having(gram, "take")
    index = rng.permutation(N)[:9]
    part, beta, weights = gram.take(index), rng.normal(size=9), rng.random(M)
    assert part.shape == (9, M)
    expected = K[np.ix_(index, index)]
    assert_allclose(part.matvec(beta, weights), (expected @ weights) @ beta, rtol=1e-11, atol=1e-12)
    assert_allclose(part.quad(beta), np.einsum("i,ijk,j->k", beta, expected, beta), rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_only_is_some_of_the_kernels_on_the_same_samples(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    chosen = np.array([4, 0, 5])
    some, beta, weights = gram.only(chosen), rng.normal(size=N), rng.random(3)
    assert some.shape == (N, 3)
    assert_allclose(some.quad(beta), np.einsum("i,ijk,j->k", beta, K[:, :, chosen], beta), rtol=1e-11)
    assert_allclose(some.matvec(beta, weights), (K[:, :, chosen] @ weights) @ beta, rtol=1e-11, atol=1e-11)


# -- the stored stack --


@each_dtype
def test_dense_stack_is_kept_not_copied_and_never_changed(dtype, rng):
    stack = stack_of(dtype)
    before = stack.copy()
    gram = DenseGram(stack, np.full(M, 2.0))
    gram.quad(rng.normal(size=N))
    gram.spread(np.ones(2), np.array([0, 1]))
    gram.block(np.arange(3), np.arange(2))
    assert np.shares_memory(gram.stack, stack)
    assert_array_equal(stack, before)


def test_dense_takes_any_layout_and_integers():
    stack = stack_of()
    beta = np.linspace(-1, 1, N)
    kernels_first, backwards = np.moveaxis(stack, 2, 0).copy(), stack[:, :, ::-1].copy()
    for other in (np.asfortranarray(stack), backwards[:, :, ::-1], np.moveaxis(kernels_first, 0, 2)):
        assert_allclose(DenseGram(other).quad(beta), DenseGram(stack).quad(beta), rtol=1e-13)
    assert DenseGram(np.ones((2, 2, 1), dtype=int)).quad(np.array([1.0, 2.0])).tolist() == [9.0]


@pytest.mark.parametrize("shape", [(3, 3), (3, 4, 2), (2, 3, 3), (3,)])
def test_dense_refuses_what_is_not_a_stack(shape):
    with pytest.raises(ValueError, match=r"stack must have shape \(n, n, m\), samples first; got"):
        DenseGram(np.zeros(shape))
