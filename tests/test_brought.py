"""Kernels people bring: sets and categories, strings, distances, and functions of any objects."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from sklearn.model_selection import GridSearchCV

import kernelweave as kw
from kernelweave import kernels as K
from registry import STRING_KERNELS, spelled

LETTERS = "ACGT"
RNG = np.random.default_rng(0)
Y = np.arange(30) % 2
TEXTS = ["".join(RNG.choice(list(LETTERS), RNG.integers(5, 9))) + "GATTA" * c for c in Y]
each_string = pytest.mark.parametrize("kernel", STRING_KERNELS, ids=spelled)


def column(texts):
    return np.array(texts, dtype=object)[:, None]


def features(text, length, mismatches):
    """Return the count of every word within reach of the words of a text, by looking at all words there are."""
    found = Counter()
    for i in range(len(text) - length + 1):
        for word in product(LETTERS, repeat=length):
            if sum(a != b for a, b in zip(word, text[i : i + length], strict=True)) <= mismatches:
                found[word] += 1
    return found


@pytest.mark.parametrize(("length", "mismatches"), [(1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (3, 2), (4, 1), (2, 2)])
def test_words_are_counted_as_by_hand(length, mismatches):
    kernel = K.Mismatch(length, mismatches=mismatches, alphabet=4)
    counts = [features(text, length, mismatches) for text in TEXTS[:6]]
    expected = [[sum(n * b[word] for word, n in a.items()) for b in counts] for a in counts]
    np.testing.assert_allclose(kernel(TEXTS[:6]), expected)
    if not mismatches:
        np.testing.assert_allclose(K.Spectrum(length)(TEXTS[:6]), expected)


@each_string
def test_laws_of_kernels_on_strings(kernel):
    [resolved] = kernel.resolve(TEXTS)
    G = resolved(TEXTS)
    np.testing.assert_allclose(G, G.T)
    assert np.linalg.eigvalsh(G).min() >= -1e-10 * np.trace(G)
    np.testing.assert_allclose(resolved.diagonal(TEXTS), np.diag(G))
    np.testing.assert_allclose(resolved(TEXTS[:4], TEXTS[3:9]), G[:4, 3:9])
    prepared = K.PreparedKernels([resolved], column(TEXTS[:7]))
    np.testing.assert_allclose(next(prepared(column(TEXTS[5:9])))[1], G[5:9, :7])


def test_words_that_are_new_and_texts_that_are_short():
    kernel = K.Spectrum(3)
    np.testing.assert_array_equal(kernel(["AC", "ACG"], ["ACG", "XYZXYZ"]), [[0, 0], [1, 0]])
    with pytest.raises(ValueError, match="takes strings"):
        kernel(np.ones((2, 1)))


def test_tanimoto_and_jaccard_of_bits_are_shares(rng):
    bits = (rng.random((12, 20)) < 0.3).astype(float)
    bits[0] = 0.0
    both, either = bits @ bits.T, np.maximum(bits[:, None], bits[None]).sum(axis=2)
    expected = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    for kernel in (K.Tanimoto(), K.Jaccard()):
        np.testing.assert_allclose(kernel(bits), expected)
        np.testing.assert_allclose(kernel(csr_matrix(bits)), expected)
        np.testing.assert_allclose(kernel(bits[:3], bits[2:8]), expected[:3, 2:8])


def test_jaccard_of_counts(rng):
    counts = rng.poisson(2.0, size=(9, 6)).astype(float)
    low, high = (f(counts[:, None], counts[None]).sum(axis=2) for f in (np.minimum, np.maximum))
    np.testing.assert_allclose(K.Jaccard()(counts), low / high)
    with pytest.raises(ValueError, match="no negative values"):
        K.Jaccard()(counts - 1.0)


def test_equality_of_codes_and_words(rng):
    codes = rng.integers(0, 3, size=(10, 4)).astype(float)
    expected = (codes[:, None] == codes[None]).mean(axis=2)
    np.testing.assert_allclose(K.Equality()(codes), expected)
    words = np.array(["red", "green", "blue"], dtype=object)[codes.astype(int)]
    np.testing.assert_allclose(K.Equality()(words), expected)


def test_ordinal_is_relative_to_the_range_of_the_training_samples(rng):
    grades = rng.integers(1, 6, size=(20, 3)).astype(float)
    grades[:, 2] = 4.0  # a column without a range says nothing
    kernel = K.Ordinal().resolve(grades)[0]
    spread = np.ptp(grades[:, :2], axis=0)
    expected = 1.0 - (np.abs(grades[:, None, :2] - grades[None, :, :2]) / spread).sum(axis=2) / 3.0
    np.testing.assert_allclose(kernel(grades), expected)
    beyond = np.array([[99.0, 99.0, 99.0]])
    np.testing.assert_allclose(kernel(beyond, grades), kernel(grades.max(axis=0)[None], grades))
    with pytest.raises(ValueError, match="low of Ordinal must not be above high"):
        K.Ordinal(low=2, high=1).resolve(grades)


def test_distances_become_kernels(rng):
    X = rng.normal(size=(30, 3))
    D = cdist(X, X)
    stack = K.from_distance(D, gamma=[0.1, 1.0])
    np.testing.assert_allclose(stack[:, :, 1], K.RBF(gamma=1.0)(X))
    several = K.from_distance(np.stack([D, 2.0 * D], axis=2), gamma=[0.1, 1.0], power=1.0)
    np.testing.assert_allclose(several[:, :, 3], np.exp(-2.0 * D))
    clf = kw.MKLClassifier(K.precomputed(["wide", "narrow"])).fit(stack[:20, :20], Y[:20])
    assert clf.predict(K.from_distance(D[20:, :20], gamma=[0.1, 1.0])).shape == (10,)
    for bad, message in [((-D,), "numbers from zero on"), ((D[0],), "samples first"), ((D, 0.0), "above zero")]:
        with pytest.raises(ValueError, match=message):
            K.from_distance(*bad)


def overlap(A, B):
    """Letters that two strings share, for all pairs."""
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


def common_edges(a, b):
    return float(len(a["edges"] & b["edges"]))


def test_strings_as_samples():
    for X in (TEXTS, np.array(TEXTS), pd.Series(TEXTS), tuple(TEXTS)):
        clf = kw.MKLClassifier(K.spectrum([2, 3]) + [K.Callable(overlap, psd=True)]).fit(X, Y)
        assert clf.n_features_in_ == 1 and clf.score(X, Y) > 0.8
    search = GridSearchCV(kw.MKLClassifier(K.spectrum([2, 3])), {"C": [1, 10]}, cv=3).fit(TEXTS, Y)
    assert search.best_score_ > 0.7
    assert kw.MKLClassifier(K.spectrum([2, 3]), memory=1e4).fit(TEXTS, Y).storage_.startswith("columns on demand")


def test_any_objects_as_samples():
    chain = [{"edges": {(i, i + 1) for i in range(size)}} for size in range(3, 33)]
    ring = [{"edges": graph["edges"] | {(0, len(graph["edges"]))}} for graph in chain]
    graphs = [pair[c] for pair, c in zip(zip(chain, ring, strict=True), Y, strict=True)]
    clf = kw.MKLClassifier(K.Callable(common_edges, "edges", psd=True, pairwise=True), normalize="diagonal")
    clf.fit(graphs, Y)
    assert clf.kernel_names_ == ["normalised edges"] and clf.predict(graphs[:3]).shape == (3,)
    lists = [[i, str(i)] for i in range(30)]
    digit = K.Callable(lambda a, b: float(a[1][0] == b[1][0]), "first digit", pairwise=True)
    assert kw.MKLClassifier(digit).fit(lists, Y).predict(lists).shape == (30,)


def test_functions_of_two_samples_see_rows_of_numbers(rng):
    X = rng.normal(size=(8, 3))
    kernel = K.Callable(lambda x, z: float(x @ z), "dot", pairwise=True)
    np.testing.assert_allclose(kernel(X), X @ X.T)
    np.testing.assert_allclose(kernel(X[:2], X[3:]), X[:2] @ X[3:].T)
    with pytest.raises(TypeError, match="two samples"):
        kernel(csr_matrix(X))


def mixed_samples():
    """Strings beside numbers, as a table and as views."""
    age = RNG.normal(size=(30, 1)) + Y[:, None]
    frame = pd.DataFrame({"text": TEXTS, "age": age[:, 0], "sex": np.where(RNG.random(30) < 0.5, "m", "f")})
    yield frame, K.spectrum(on="text") + K.rbf(on="age") + K.equality(on="sex") + K.constant()
    yield {"text": TEXTS, "numbers": age}, K.spectrum(on="text") + K.rbf(on="numbers")
    yield kw.Views({"text": pd.Series(TEXTS), "numbers": csr_matrix(age)}), {"text": "spectrum", "numbers": "rbf"}
    yield {"text": TEXTS, "numbers": age}, [K.Spectrum(on="text") * K.RBF(on="numbers"), 2.0 * K.RBF(on="numbers")]


def test_strings_beside_numbers(tmp_path):
    for X, bank in mixed_samples():
        clf = kw.MKLClassifier(bank).fit(X, Y)
        assert clf.score(X, Y) > 0.8
        kw.save(clf, tmp_path / "model.kw")
        np.testing.assert_array_equal(kw.load(tmp_path / "model.kw").decision_function(X), clf.decision_function(X))


def test_every_task_takes_objects():
    bank = K.spectrum([1, 2])
    assert kw.MKLRegressor(bank).fit(TEXTS, Y.astype(float)).predict(TEXTS).shape == (30,)
    assert kw.MKLOutlierDetector(bank).fit(TEXTS).predict(TEXTS).shape == (30,)
    assert kw.NonconvexMKLClassifier(bank).fit(TEXTS, Y).predict(TEXTS).shape == (30,)
    assert kw.path(kw.MKLClassifier(bank), TEXTS, Y, C=[1, 10]).weights.shape == (2, 2)


@pytest.mark.parametrize(
    ("model", "X", "error", "message"),
    [
        (kw.MKLClassifier(), TEXTS, ValueError, "no kernel takes them"),
        (kw.MKLClassifier(K.spectrum() + K.rbf()), TEXTS, ValueError, "takes numbers, and X holds other things"),
        (kw.MKLClassifier(K.spectrum()), np.ones((30, 2)), ValueError, "takes strings"),
        (kw.MKLClassifier(K.spectrum(), approximation="nystroem"), TEXTS, TypeError, "made from numbers"),
        (kw.NonconvexMKLClassifier(K.spectrum(), model="lmkl-softmax"), TEXTS, TypeError, "columns of numbers"),
    ],
)
def test_refusals(model, X, error, message):
    with pytest.raises(error, match=message):
        model.fit(X, Y)


def test_new_samples_must_be_objects_too():
    with pytest.raises(TypeError, match="fitted on other objects"):
        kw.MKLClassifier(K.spectrum()).fit(TEXTS, Y).predict(np.ones((3, 1)))


@pytest.mark.parametrize("parameters", [{"length": 0}, {"length": 2.5}])
def test_lengths_are_whole_numbers(parameters):
    with pytest.raises(ValueError, match="length of Spectrum"):
        K.Spectrum(**parameters)
    with pytest.raises(ValueError, match="mismatches of Mismatch"):
        K.Mismatch(2, mismatches=3)
    with pytest.raises(ValueError, match="alphabet of Mismatch"):
        K.Mismatch(2, alphabet=0)
