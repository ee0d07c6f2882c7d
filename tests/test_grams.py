"""Laws of representations: every builder in GRAMS equals plain numpy on the kernels it was given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelweave import Problem, grams, losses, penalties, solve
from kernelweave.grams import DenseGram
from registry import APPROXIMATIONS, BANKS, GRAMS, IN_PASSES, SHARED, VIEWS, exported, label, names

N, M = 23, 7


def kernels_first(stack, scale):
    """Return a stack that lies in memory one kernel after the other."""
    return DenseGram(np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2), scale)


BUILDS = [*GRAMS, kernels_first]
each_gram = pytest.mark.parametrize("build", BUILDS, ids=label)
WITH_ENTRIES = [build for build in BUILDS if issubclass(type(build(np.ones((1, 1, 1)), None)), grams.EntryGram)]
each_with_entries = pytest.mark.parametrize("build", WITH_ENTRIES, ids=label)
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


def test_every_representation_is_registered():
    kernels = names(build(stack_of(), None) for build in GRAMS) | {view.__name__ for view in VIEWS}
    others = {kind.__name__ for kind in [*BANKS, *IN_PASSES, *SHARED]}
    assert exported(grams) == kernels | names(APPROXIMATIONS) | others


@each_gram
@each_dtype
@each_scale
def test_two_products(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    assert gram.shape == (N, M)
    for zeros in (0.0, 0.5, 0.9, 1.0):
        beta = sparse_duals(rng, zeros)
        for weights in (rng.random(M), np.eye(M)[2], np.zeros(M), rng.random(M) * (np.arange(M) < 3)):
            assert_allclose(gram.decision(beta, weights), (K @ weights) @ beta, rtol=1e-11, atol=1e-12)
        assert_allclose(gram.energies(beta), np.einsum("i,ijk,j->k", beta, K, beta), rtol=1e-11, atol=1e-12)
        both = gram.energies_and_decision(beta, weights)
        assert_allclose(both[0], gram.energies(beta), rtol=1e-11, atol=1e-12)
        assert_allclose(both[1], gram.decision(beta, weights), rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_weighted_columns(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    for size in (0, 1, 4, 6, 11):
        index, delta = rng.choice(N, size, replace=False), rng.normal(size=size)
        expected = np.einsum("s,jsk->jk", delta, K[:, index])
        rows, kernels = rng.permutation(N)[:9], rng.permutation(M)[:3]
        assert_allclose(gram.weighted_columns(delta, index), expected, rtol=1e-11, atol=1e-12)
        assert_allclose(gram.weighted_columns(delta, index, rows), expected[rows], rtol=1e-11, atol=1e-12)
        for some in (np.arange(N), rows):
            part = gram.weighted_columns(delta, index, some, kernels)
            assert_allclose(part, expected[np.ix_(some, kernels)], rtol=1e-11, atol=1e-12)
        part = gram.weighted_columns(delta, index, kernels=kernels)
        assert_allclose(part, expected[:, kernels], rtol=1e-11, atol=1e-12)


@each_gram
def test_weighted_columns_over_more_than_one_chunk(build, rng):
    gram = build(stack_of(n=70, m=80), None)
    index, delta = np.arange(0, 70, 3), rng.normal(size=24)
    expected = np.einsum("s,jsk->jk", delta, stack_of(n=70, m=80)[:, index])
    assert_allclose(gram.weighted_columns(delta, index), expected, rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_combine(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    index = rng.permutation(N)[:10]
    for weights in (rng.random(M), np.eye(M)[1], rng.random(M) * (np.arange(M) < 2), np.zeros(M)):
        expected = (K @ weights)[np.ix_(index, index)]
        assert_allclose(gram.combine(index, weights), expected, rtol=1e-11, atol=1e-12)


@each_with_entries
@each_dtype
@each_scale
def test_block(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    index, kernels = rng.permutation(N)[:8], rng.permutation(M)[:4]
    block = gram.block(index, kernels)
    assert block.dtype == np.float64
    assert_allclose(block, K[np.ix_(index, index, kernels)].transpose(0, 2, 1), rtol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_diagonal(build, dtype, scale):
    gram, K = pair(build, dtype, scale)
    assert_allclose(gram.diagonal(), np.einsum("iik->ik", K), rtol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_take_is_the_same_kernels_on_fewer_samples(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    index = rng.permutation(N)[:9]
    part, beta, weights = gram.take(index), rng.normal(size=9), rng.random(M)
    assert part.shape == (9, M)
    expected = K[np.ix_(index, index)]
    assert_allclose(part.decision(beta, weights), (expected @ weights) @ beta, rtol=1e-11, atol=1e-12)
    assert_allclose(part.energies(beta), np.einsum("i,ijk,j->k", beta, expected, beta), rtol=1e-11, atol=1e-12)


@each_gram
@each_dtype
@each_scale
def test_only_is_some_of_the_kernels_on_the_same_samples(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    chosen = np.array([4, 0, 5])
    some, beta, weights = gram.only(chosen), rng.normal(size=N), rng.random(3)
    assert some.shape == (N, 3)
    assert_allclose(some.energies(beta), np.einsum("i,ijk,j->k", beta, K[:, :, chosen], beta), rtol=1e-11)
    assert_allclose(some.decision(beta, weights), (K[:, :, chosen] @ weights) @ beta, rtol=1e-11, atol=1e-11)


@each_gram
@each_dtype
@each_scale
def test_products_with_every_kernel(build, dtype, scale, rng):
    gram, K = pair(build, dtype, scale)
    for zeros in (0.0, 0.7, 1.0):
        beta = sparse_duals(rng, zeros)
        assert_allclose(gram.products(beta), np.einsum("ijk,j->ik", K, beta), rtol=1e-11, atol=1e-12)
        table = np.stack([beta, sparse_duals(rng)], axis=1)
        assert_allclose(gram.products(table), np.einsum("ijk,jc->cik", K, table), rtol=1e-11, atol=1e-12)


# -- what is declared --


def test_what_representations_declare():
    dense, demand, factors = (build(stack_of(), None) for build in GRAMS)
    assert isinstance(dense, grams.EntryGram) and isinstance(demand, grams.EntryGram)
    assert isinstance(factors, grams.FactorGram) and isinstance(factors, grams.CombinableGram)
    assert not isinstance(factors, grams.EntryGram)
    assert (dense.on_demand, demand.on_demand, factors.on_demand) == (False, True, False)
    assert dense.stored[0] is dense.stack and demand.stored is None
    assert np.isnan(dense.hit_rate) and np.isnan(factors.hit_rate)
    assert factors.columns == factors.features.shape[1] == factors.ranks.sum()
    assert factors.host_features is factors.features and factors.on_host and factors.combinable
    assert {kind.offers for kind in (grams.EntryGram, grams.CombinableGram, grams.FactorGram, grams.ProductStack)} == {
        "the entries of kernels", "sums of kernels between some samples", "features of low rank", "products of kernels"
    }  # fmt: skip


def test_a_representation_of_ones_own_needs_two_products(rng):
    """And the diagonal; what else there is, a solver asks for by a class."""

    class Bare(grams.GramStack):
        def __init__(self, K):
            self.K, self.shape = K, K.shape[1:]

        shape = None

        def energies(self, beta):
            return np.einsum("i,ijk,j->k", beta, self.K, beta)

        def decision(self, beta, weights):
            return (self.K @ weights) @ beta

        def diagonal(self):
            return np.einsum("iik->ik", self.K)

    gram = Bare(stack_of())
    assert gram.shape == (N, M) and gram.asarray([1]).dtype == float
    for part in (lambda: gram.take(np.arange(3)), lambda: gram.only(np.arange(2))):
        with pytest.raises(TypeError, match=r"Bare cannot be restricted to some .*: restrict what it is made of"):
            part()
    with pytest.raises(AttributeError):
        _ = gram.combine
    with pytest.raises(TypeError, match="abstract"):
        grams.GramStack()


@each_gram
def test_products_are_chosen_by_the_penalty(build):
    gram, penalty = build(stack_of(), None), penalties.SpectralNorm()
    products = grams.products_for(gram, penalty)
    assert isinstance(products, grams.ProductStack) and products.shape == (N, M + 1)
    products.check_penalty(penalty)
    with pytest.raises(ValueError, match=r"weighs products of kernels: give grams\.products_for"):
        gram.check_penalty(penalty)
    with pytest.raises(ValueError, match="weighs kernels, not products of them"):
        products.check_penalty(penalties.L1())
    with pytest.raises(ValueError, match="differs between the penalty"):
        products.check_penalty(penalties.SpectralNorm(linear_terms=False))


# -- the stored stack --


@each_dtype
def test_dense_stack_is_kept_not_copied_and_never_changed(dtype, rng):
    stack = stack_of(dtype)
    before = stack.copy()
    gram = DenseGram(stack, np.full(M, 2.0))
    gram.energies(rng.normal(size=N))
    gram.weighted_columns(np.ones(2), np.array([0, 1]))
    gram.block(np.arange(3), np.arange(2))
    assert np.shares_memory(gram.stack, stack)
    assert_array_equal(stack, before)


def test_dense_takes_any_layout_and_integers():
    stack = stack_of()
    beta = np.linspace(-1, 1, N)
    kernels_first, backwards = np.moveaxis(stack, 2, 0).copy(), stack[:, :, ::-1].copy()
    for other in (np.asfortranarray(stack), backwards[:, :, ::-1], np.moveaxis(kernels_first, 0, 2)):
        assert_allclose(DenseGram(other).energies(beta), DenseGram(stack).energies(beta), rtol=1e-13)
    assert DenseGram(np.ones((2, 2, 1), dtype=int)).energies(np.array([1.0, 2.0])).tolist() == [9.0]


@pytest.mark.parametrize("shape", [(3, 3), (3, 4, 2), (2, 3, 3), (3,)])
def test_dense_refuses_what_is_not_a_stack(shape):
    with pytest.raises(ValueError, match=r"stack must have shape \(n, n, m\), samples first; got"):
        DenseGram(np.zeros(shape))


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2)], ids=label)
def test_kernels_one_after_the_other_are_used_in_place(penalty, monkeypatch):
    monkeypatch.setattr("kernelweave.solvers.base.TINY", 0)
    stack, y = stack_of(n=60), np.where(np.arange(60) % 3, 1.0, -1.0)
    gram = kernels_first(stack, None)
    assert gram.each is not None and np.shares_memory(gram.stack, gram.each)
    here, there = (solve(Problem(one, losses.Hinge().bind(y), penalty), "sqp") for one in (gram, DenseGram(stack)))
    assert here.converged and here.certificate.lower <= there.certificate.upper
    assert there.certificate.lower <= here.certificate.upper


def test_energies_of_a_multiple_of_the_duals_whose_products_are_known():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30, 4))
    stack = np.einsum("iak,jak->ijk", A, A)
    gram, fresh = DenseGram(stack, np.arange(1.0, 5.0)), DenseGram(stack, np.arange(1.0, 5.0))
    beta = np.where(rng.random(30) < 0.4, rng.normal(size=30), 0.0)
    gram.products(beta)
    gram.stack = np.zeros_like(stack)  # what is not read again cannot tell
    for times in (1.0, 1.7):
        np.testing.assert_allclose(gram.energies(times * beta), fresh.energies(times * beta), rtol=1e-12)
    other = beta.copy()
    other[np.flatnonzero(beta)[0]] *= 1.0 + 1e-12
    assert not gram.energies(other).any() and not gram.energies(np.roll(beta, 1)).any()
