"""Kernels on strings: how many short words two of them share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from .base import Kernel, _block

CODES = 2**22  # pairs of words compared at a time


@dataclass(frozen=True, eq=False, repr=False)
class Spectrum(Kernel):
    """Counts of all words of one length in two strings, multiplied and added up.

    X is a list of strings, or a table in which `on` names columns of strings. With ``.normalised()`` long strings count
    no more than short ones.

    Parameters
    ----------
    length : int, default=3
        Characters of a word.
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.Spectrum(2)(["ACGT", "ACAC"])
    array([[3., 2.],
           [2., 5.]])
    """

    length: int = 3
    _always: ClassVar[tuple[str, ...]] = ("length",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.length) is not int or self.length < 1:
            raise ValueError(f"length of {type(self).__name__} must be a whole number from 1 on; got {self.length!r}.")

    @property
    def statistic(self) -> Hashable:
        return "spectrum", self.length

    @property
    def accepts_sparse(self) -> bool:
        return False

    @property
    def accepts_objects(self) -> bool:
        return True

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        theirs = Z if isinstance(Z, _Words) else _Words(self, X if Z is None else Z)
        ours = theirs.counts if Z is None else theirs.counted(self, X)
        return (ours @ theirs.counts.T).toarray()

    def prepare_rows(self, Z: Any) -> Any:
        return _Words(self, Z)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def self_similarity(self, X: Any) -> np.ndarray:
        return np.array([float(sum(count**2 for count in self._words(row).values())) for row in X])

    def _words(self, row: np.ndarray) -> Counter[tuple[int, str]]:
        """Count the words of a sample, by column."""
        found: Counter[tuple[int, str]] = Counter()
        for j, text in enumerate(row):
            if not isinstance(text, str):
                raise ValueError(f"{self.name} takes strings, and X holds {text!r}: name columns of strings with on=.")
            found.update((j, text[i : i + self.length]) for i in range(len(text) - self.length + 1))
        return found


class _Words:
    """Samples as counts of the words they have."""

    def __init__(self, kernel: Spectrum, X: Any):
        self.place: dict[tuple[int, str], int] = {}
        rows = [kernel._words(row) for row in X]
        for row in rows:
            for word in row:
                self.place.setdefault(word, len(self.place))
        self.counts = self._matrix(rows)

    def counted(self, kernel: Spectrum, X: Any) -> csr_array:
        """Count these words in other samples."""
        return self._matrix([kernel._words(row) for row in X])

    def _matrix(self, rows: list[Counter[tuple[int, str]]]) -> csr_array:
        entries = [[(self.place[word], count) for word, count in row.items() if word in self.place] for row in rows]
        ends = np.cumsum([0, *map(len, entries)])
        columns = [column for row in entries for column, _ in row]
        values = [float(count) for row in entries for _, count in row]
        return csr_array((values, columns, ends), shape=(len(rows), len(self.place)))


@dataclass(frozen=True, eq=False, repr=False)
class Mismatch(Spectrum):
    """Like `Spectrum`, but a word also counts for all words that differ from it in a few characters.

    Parameters
    ----------
    length : int, default=4
        Characters of a word.
    mismatches : int, default=1
        Most characters in which words may differ and still count for each other.
    alphabet : int, optional
        Characters there are, such as 4 for DNA and 20 for proteins; those of the training samples by default.
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> from kernelweave import kernels as K
    >>> K.Mismatch(2, mismatches=1, alphabet=4)(["AC", "AG", "TT"])
    array([[7., 4., 2.],
           [4., 7., 2.],
           [2., 2., 7.]])
    """

    length: int = 4
    mismatches: int = 1
    alphabet: int | None = None
    _always = ("length", "mismatches")

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.mismatches) is not int or not 0 <= self.mismatches <= self.length:
            raise ValueError(f"mismatches of Mismatch must be a whole number up to length; got {self.mismatches!r}.")
        if self.alphabet is not None and (type(self.alphabet) is not int or self.alphabet < 1):
            raise ValueError(f"alphabet of Mismatch must be a number of characters or None; got {self.alphabet!r}.")

    @property
    def statistic(self) -> Hashable:
        return "mismatch", self.length, self.mismatches, self.alphabet

    @property
    def _needs_data(self) -> bool:
        return self.alphabet is None

    def _fixed(self, X: Any, columns: tuple[int, ...] | None, sample_weight: Any) -> Kernel:
        if self.alphabet is not None:
            return self
        block = _block(replace(self, on=columns), X)
        return replace(self, alphabet=max(1, len({letter for row in block for text in row for letter in str(text)})))

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        ours = _Words(self, X)
        theirs = ours if Z is None else Z if isinstance(Z, _Words) else _Words(self, Z)
        return self._product(ours, theirs)

    def self_similarity(self, X: Any) -> np.ndarray:
        return np.array([self._product(own, own)[0, 0] for own in (_Words(self, row[None]) for row in X)])

    def _product(self, ours: _Words, theirs: _Words) -> np.ndarray:
        """Return the counts of one on the other side of the numbers of words that count for both of two words."""
        common = np.array([self._common(distance) for distance in range(self.length + 1)])
        left, right = _letters(ours, self.length), _letters(theirs, self.length)
        out = np.zeros((ours.counts.shape[0], theirs.counts.shape[0]))
        step = max(1, CODES // max(1, right.shape[0]))
        for start in range(0, left.shape[0], step):
            part = left[start : start + step]
            apart = sum((part[:, None, i] != right[None, :, i]).astype(int) for i in range(1, self.length + 1))
            near = np.where(part[:, None, 0] == right[None, :, 0], common[apart], 0.0)
            out += ours.counts[:, start : start + step] @ (theirs.counts @ near.T).T
        return out

    def _common(self, distance: int) -> float:
        """Return how many words are within reach of both of two words that differ in ``distance`` characters."""
        assert self.alphabet is not None
        reach, others = self.mismatches, float(max(self.alphabet, 2 if distance else 1))
        found = 0.0
        for same in range(distance + 1):  # of the places in which the two differ, those that agree with the first
            for other in range(distance - same + 1):  # and those that agree with the second
                ways = comb(distance, same) * comb(distance - same, other) * (others - 2.0) ** (distance - same - other)
                for changed in range(self.length - distance + 1):
                    if max(distance - same, distance - other) + changed <= reach:
                        found += ways * comb(self.length - distance, changed) * (others - 1.0) ** changed
        return found


def _letters(words: _Words, length: int) -> np.ndarray:  # (n_words, 1 + length)
    """Return column and characters of each word as whole numbers."""
    rows = [[column, *map(ord, word)] for column, word in words.place]
    return np.array(rows, dtype=np.int32).reshape(len(rows), length + 1)
