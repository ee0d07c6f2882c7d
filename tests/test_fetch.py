"""The fetcher of benchmark data: what it writes is what was meant, and what is not is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
fetch = pytest.importorskip("fetch")



def test_a_set_of_scikit_learn_needs_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path / "new"))
    assert fetch.main(["wdbc"]) == 0
    with np.load(tmp_path / "new" / "wdbc.npz") as data:
        assert data["X"].shape == (569, 30) and np.sum(data["y"] == 1) == 212
    assert "569 x 30" in capsys.readouterr().out


def test_labels_are_told_by_their_counts(monkeypatch):
    source = fetch.SOURCES["sonar"]
    y = np.array(["Rock"] * 97 + ["Mine"] * 111)
    X, labels = fetch.checked(source, np.zeros(source.shape), y)
    assert X.shape == source.shape and set(labels[:97]) == {-1} and set(labels[97:]) == {1}


def test_another_set_of_the_same_name_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERNELWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr(fetch, "read", lambda source: (np.zeros((10, 2)), np.arange(10) % 2))
    assert fetch.main(["spambase"]) == 1
    assert "another set of this name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        fetch.main(["nope"])
