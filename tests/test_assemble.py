"""The door: kernels computed in pieces, scaled, checked and clipped as promised."""

from __future__ import annotations

import builtins
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.assemble import (
    Options,
    check_memory,
    class_targets,
    definite,
    from_samples,
    from_stack,
    memory,
    read_stack,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1, 0)
WEIGHT = RNG.uniform(0.5, 2.0, 40)
BANK = K.rbf(gamma=[0.1, 1.0]) + K.linear() + K.polynomial(degree=3) + K.rbf(gamma=2.0, on="each")


def made(kernels=BANK, X=X, weight=WEIGHT, **options):
    return from_samples(X, kernels, Options(**options), weight=weight)


def ready(stack, weight=None, **options):
    return from_stack(read_stack(stack), Options(**options), class_targets(Y, weight))


def matrices(assembly):
    """The kernels as the solver sees them, (m, n, n)."""
    return np.moveaxis(assembly.gram.stack * assembly.gram.scale, 2, 0)


def mixed_signs(n=40, seed=1):
    """A symmetric matrix with eigenvalues of both signs."""
    vectors, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return (vectors * np.linspace(-3.0, 4.0, n)) @ vectors.T


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_kernels_computed_in_pieces_are_the_kernels(rows, container, monkeypatch):
    monkeypatch.setattr(memory, "BUFFER", rows * 8 * 40 * 7)
    stack = made(X=container(X), normalize=None).gram.stack
    expected = [kernel(X) for item in BANK for kernel in item.resolve(X)]
    np.testing.assert_allclose(np.moveaxis(stack, 2, 0), expected, atol=1e-12)


def test_precision_is_that_of_the_samples():
    assert made(X=X.astype(np.float32)).gram.stack.dtype == np.float32
    assert made(X=X.astype(np.float32)).storage == "dense float32, 43.8 KiB"


# --- scale -----------------------------------------------------------------------


def test_trace_gives_a_weighted_mean_diagonal_of_one():
    diagonals = made(normalize="trace").gram.diagonal()
    np.testing.assert_allclose(WEIGHT @ diagonals / WEIGHT.sum(), 1.0)


def test_diagonal_gives_ones():
    assembly = made(normalize="diagonal")
    np.testing.assert_allclose(assembly.gram.diagonal(), 1.0)
    assert all(name.startswith("normalised") for name in assembly.names)


def test_center_gives_variance_one_in_feature_space():
    share = WEIGHT / WEIGHT.sum()
    P = np.eye(40) - np.outer(np.ones(40), share)
    for matrix in matrices(made(normalize="center")):
        assert share @ np.diagonal(P @ matrix @ P.T) == pytest.approx(1.0)


def test_centring_the_matrices_themselves_changes_no_answer():
    stack = made(normalize="center").gram.stack
    P = np.eye(40) - 1 / 40
    centred = np.stack([P @ stack[:, :, k] @ P for k in range(7)], axis=2)
    plain, moved = (kw.MKLClassifier("precomputed", normalize="center", tol=1e-9).fit(A, Y) for A in (stack, centred))
    np.testing.assert_allclose(plain.weights_, moved.weights_, atol=1e-4)
    np.testing.assert_allclose(plain.decision_function(stack), moved.decision_function(centred), atol=1e-4)


@pytest.mark.parametrize("normalize", ["trace", "center"])
def test_scaling_a_kernel_beforehand_changes_nothing(normalize):
    stack = made(normalize=None).gram.stack
    scaled = stack * np.geomspace(1e-6, 1e6, 7)
    np.testing.assert_allclose(
        matrices(ready(stack, normalize=normalize)), matrices(ready(scaled, normalize=normalize)), rtol=1e-9
    )


def test_none_leaves_kernels_as_they_are():
    np.testing.assert_array_equal(made(normalize=None).scales, 1.0)


# --- definiteness -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rank_deficient_kernels_pass(dtype):
    low = (X @ X.T).astype(dtype)
    twice = np.repeat(np.repeat(low[:20, :20], 2, axis=0), 2, axis=1)
    assert ready(np.stack([low, twice, 1e-9 * low, 1e9 * low], axis=2)).kept.size == 4


def test_rounding_asymmetry_passes():
    matrix = X @ X.T
    ready((matrix + 1e-9 * RNG.standard_normal((40, 40)) + 1e-7 * np.eye(40))[:, :, None])


def test_one_pair_of_entries_that_differ_is_seen_wherever_it_is():
    stack = np.stack([np.eye(90), np.full((90, 90), 2.0)], axis=2)
    for i, j in [(0, 1), (0, 89), (33, 34), (88, 89), (12, 67)]:
        uneven = stack.copy()
        uneven[i, j, 1] += 2.1e-6
        with pytest.raises(ValueError, match=r"kernel 1 is not symmetric, .* differ by up to 2\.1e-06"):
            definite.check_symmetric(uneven, ["kernel 0", "kernel 1"], "X")


@pytest.mark.parametrize("first", ["samples", "kernels"])
def test_pairs_of_entries_that_differ_by_as_much_do_not_make_up_for_one_another(rng, first):
    for pairs in (2, 3, 10, 800):
        stack = np.ones((41, 41, 1))
        above = rng.permutation(np.argwhere(np.triu(np.ones((41, 41)), 1)))[:pairs]
        stack[(*above.T, 0)] += 1e-3 * rng.choice([-1.0, 1.0], pairs)
        if first == "kernels":
            stack = np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2)
        with pytest.raises(ValueError, match=r"kernel 0 is not symmetric, .* differ by up to 0\.001"):
            definite.check_symmetric(stack, ["kernel 0"], "X")


def test_two_pairs_that_hardly_differ_do_not_make_up_for_one_another(rng):
    for _ in range(200):
        stack = np.ones((16, 16, 1))
        above = rng.permutation(np.argwhere(np.triu(np.ones((16, 16)), 1)))[:2]
        stack[(*above.T, 0)] += 2e-6 * rng.choice([-1.0, 1.0], 2)
        with pytest.raises(ValueError, match=r"kernel 0 is not symmetric"):
            definite.check_symmetric(stack, ["kernel 0"], "X")


@pytest.mark.parametrize("first", ["samples", "kernels"])
@pytest.mark.parametrize("place", [(0, 0), (3, 1), (8, 8)])
def test_an_entry_that_is_no_number_is_seen_wherever_it_is(first, place):
    for wrong in (np.nan, np.inf, -np.inf):
        stack = np.ones((9, 9, 2))
        stack[(*place, 1)] = stack[(*place[::-1], 1)] = wrong
        if first == "kernels":
            stack = np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2)
        with pytest.raises(ValueError, match=r"kernel 1 holds NaN or infinity"):
            definite.check_symmetric(stack, ["kernel 0", "kernel 1"], "X")


@pytest.mark.parametrize("first", ["samples", "kernels"])
def test_rounding_does_not_have_entries_compared_one_by_one(monkeypatch, rng, first):
    from kernelweave.compiled import stacks

    stack = np.ones((400, 400, 2)) + 5e-11 * rng.normal(size=(400, 400, 2))
    if first == "kernels":
        stack = np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2)
    monkeypatch.setattr(stacks, "asymmetry", None)
    definite.check_symmetric(stack, ["kernel 0", "kernel 1"], "X")


def test_kernels_first_in_memory_are_the_same_kernels(rng):
    stack = rng.normal(size=(7, 7, 11))
    turned = np.moveaxis(np.ascontiguousarray(np.moveaxis(stack, 2, 0)), 0, 2)
    assert not turned.flags.c_contiguous
    np.testing.assert_array_equal(read_stack(turned), stack)
    assert np.shares_memory(read_stack(turned), turned)
    assert read_stack(stack.transpose(1, 0, 2)).flags.c_contiguous


def test_kernels_first_are_checked_in_place(rng):
    factors = rng.normal(size=(3, 40, 5))
    kernels = factors @ factors.transpose(0, 2, 1)
    there = ready(np.moveaxis(kernels, 0, 2), normalize="center")
    assert np.shares_memory(there.gram.stack, kernels)
    plain = ready(np.ascontiguousarray(np.moveaxis(kernels, 0, 2)), normalize="center")
    np.testing.assert_allclose(there.scales, plain.scales, rtol=1e-12)
    kernels[1, 7, 3] += 1e-3
    with pytest.raises(ValueError, match=r"is not symmetric, .* differ by up to 0\.001"):
        ready(np.moveaxis(kernels, 0, 2))


def test_indefinite_without_a_diagonal_is_seen():
    hollow = np.zeros((40, 40))
    hollow[0, 1] = hollow[1, 0] = 1e-12
    with pytest.raises(ValueError, match=r"not symmetric|not positive semidefinite"):
        ready(np.stack([X @ X.T, hollow], axis=2))


def test_large_stacks_are_checked_on_some_samples(monkeypatch):
    monkeypatch.setattr(definite, "CHECK_FLOPS", 1.0)
    matrix = mixed_signs(200)
    for seed in (None, 0, np.random.RandomState(3)):
        with pytest.raises(ValueError, match="kernel 1 is not positive"):
            definite.check_definite(np.stack([np.eye(200), matrix], axis=2), ["kernel 0", "kernel 1"], [0, 1], seed)


def test_checking_one_kernel_of_many_copies_no_other():
    stack = np.broadcast_to(np.eye(700, dtype=np.float32)[:, :, None], (700, 700, 60))
    names = [f"kernel {k}" for k in range(60)]
    tracemalloc.start()
    try:
        assert definite.check_definite(stack, names, [59], None)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4e7


def test_of_many_kernels_the_one_that_is_not_definite_is_named(monkeypatch):
    stack = np.stack([np.eye(200)] * 80, axis=2)
    stack[:, :, 70] = mixed_signs(200)
    for unknown, work in ((range(80), 1e8), (range(80), 1.0), (range(1, 80, 3), 1.0), (range(1, 80, 3), 1e8)):
        monkeypatch.setattr(definite, "CHECK_FLOPS", work)
        with pytest.raises(ValueError, match="kernel 70 is not positive"):
            definite.check_definite(stack, [f"kernel {k}" for k in range(80)], list(unknown), None)


def test_a_negative_direction_that_the_check_missed_is_refused_with_the_answer(monkeypatch):
    monkeypatch.setattr(definite, "CHECK_FLOPS", 1.0)
    y = np.resize([-1.0, 1.0], 200)
    hidden = np.eye(200) - 1.5 * np.outer(y, y) / 200  # positive on any 64 samples
    with pytest.raises(ValueError, match="kernel 0 is not positive"):
        kw.MKLClassifier("precomputed", penalty="uniform", solver="smo", max_iter=50).fit(hidden[:, :, None], y)


def test_trusted_kernels_are_not_looked_at():
    indefinite = mixed_signs()
    ready(indefinite[:, :, None], psd="trust")
    made(K.Callable(lambda A, B: A @ B.T, psd=True))


def test_clip_keeps_the_positive_part_and_leaves_the_users_stack_alone():
    stack = np.stack([X @ X.T, mixed_signs()], axis=2)
    before = stack.copy()
    assembly = ready(stack, psd="clip", normalize=None)
    values, vectors = np.linalg.eigh(stack[:, :, 1])
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(matrices(assembly), [stack[:, :, 0], positive], atol=1e-12)
    np.testing.assert_array_equal(stack, before)
    assert list(assembly.bases) == [1]


def test_clip_copies_nothing_if_there_is_nothing_to_clip():
    stack = np.ascontiguousarray((X @ X.T)[:, :, None])
    assert ready(stack, psd="clip").gram.stack is stack


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_clipped_kernels_predict_training_samples_as_they_were_fitted(multiclass):
    """On training samples, the untouched kernel with projected coefficients is the clipped kernel."""
    stack = np.stack([X @ X.T, mixed_signs()], axis=2)
    y = np.where(X[:, 2] > 0.5, 2, Y)
    clipped = np.moveaxis(matrices(ready(stack, psd="clip", normalize=None)), 0, 2)
    options = {"penalty": "lp", "normalize": None, "tol": 1e-9, "multiclass": multiclass}
    ours = kw.MKLClassifier("precomputed", psd="clip", **options).fit(stack, y)
    same = kw.MKLClassifier("precomputed", **options).fit(np.ascontiguousarray(clipped), y)
    np.testing.assert_allclose(ours.decision_function(stack), same.decision_function(clipped), atol=1e-5)


def test_clipped_functions_predict_new_samples():
    model = kw.MKLClassifier([K.Sigmoid(gamma=1.0, coef0=-1.0), "rbf"], psd="clip", penalty="lp").fit(X[:30], Y[:30])
    assert model.decision_function(X[30:]).shape == (10,)
    assert len(model.support_) <= 30


# --- labels -----------------------------------------------------------------------


def test_weights_multiply_and_balance_by_weight():
    weight = np.array([1.0, 2.0, 0.0, 1.0, 4.0])
    targets = class_targets(np.array(["b", "a", "a", "b", "a"]), weight, "balanced")
    repeated = class_targets(np.repeat(["b", "a", "a", "b", "a"], weight.astype(int)), None, "balanced")
    assert list(targets.rows) == [0, 1, 3, 4]
    assert list(targets.codes) == [1, 0, 1, 0]
    assert np.bincount(targets.codes, targets.cost) == pytest.approx(np.bincount(repeated.codes, repeated.cost))


def test_a_class_without_weight_is_no_class():
    assert list(class_targets(np.array([0, 1, 2]), [1.0, 1.0, 0.0]).classes) == [0, 1]


# --- memory -----------------------------------------------------------------------


def test_memory_is_estimated_before_anything_is_allocated(monkeypatch):
    with pytest.raises(ValueError) as refusal:
        check_memory((10**6, 10**6, 1000), np.float64)
    assert "7450580.6 GiB (1000 of 1000000 x 1000000 samples, float64)" in str(refusal.value)
    with pytest.raises(ValueError, match=r"allows 1\.0 MiB: use fewer kernels or rows, or a larger"):
        check_memory((1000, 1000, 10), np.float32, memory=2**20)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000.0)
    with pytest.raises(ValueError, match=r"memory='auto' allows 0\.8 KiB"):
        check_memory((100, 100, 1), np.float32)
    with pytest.raises(ValueError, match="does not hold one sample's column of all kernels"):
        made()


def test_memory_where_the_system_does_not_say(monkeypatch):
    def refuse(*_, **__):
        raise OSError

    assert memory.available_memory() < 2**50
    monkeypatch.setattr(builtins, "open", refuse)
    assert memory.available_memory() < 2**50
    monkeypatch.setattr(memory.os, "sysconf", refuse)
    assert memory.available_memory() == np.inf
