"""Pictures show what the fitted model holds."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import plot, tables

BANK = K.rbf(gamma=[0.01, 0.1, 1.0, 10.0]) + K.polynomial(degree=[1, 2]) + K.linear(on="each")


@pytest.fixture(scope="module")
def data():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def binary(data):
    X, y = data
    return kw.MKLClassifier(BANK, penalty=kw.penalties.Lp(1.5)).fit(X[50:], y[50:])


@pytest.fixture(scope="module")
def multiclass(data):
    return kw.MKLClassifier(BANK).fit(*data)


@pytest.fixture
def axes():
    return plot.canvas()


def drawn(axes):
    """Render, so that what only fails at drawing time fails here."""
    axes.figure.canvas.draw()
    return axes


def test_weights_are_bars_heaviest_first(binary, axes):
    assert plot.weights(binary, ax=axes) is axes
    widths = [bar.get_width() for bar in drawn(axes).patches]
    expected = np.sort(binary.weights_[binary.weights_ > 0])[::-1]
    np.testing.assert_allclose(widths, expected)
    heaviest = axes.get_yticklabels()[0].get_text()
    assert heaviest == binary.kernel_names_[int(np.argmax(binary.weights_))]


def test_top_limits_the_bars_and_says_so(binary, axes):
    plot.weights(binary, top=2, ax=axes)
    assert len(drawn(axes).patches) == 2
    assert "the 2 heaviest shown" in axes.get_title(loc="left")


def test_names_can_be_given(binary, axes):
    names = [f"kernel {k}" for k in range(len(binary.weights_))]
    plot.weights(binary, ax=axes, names=names)
    assert axes.get_yticklabels()[0].get_text() == f"kernel {np.argmax(binary.weights_)}"


def test_weights_of_several_problems_are_a_heat_map(multiclass, axes):
    plot.weights(multiclass, ax=axes)
    [image] = drawn(axes).images
    used = np.count_nonzero(multiclass.weights_.any(axis=0))
    assert image.get_array().shape == (3, used)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "1", "2"]


def test_weights_below_zero_are_drawn(axes):
    X, y = load_iris(return_X_y=True)
    one = kw.recipe("cabmkl-linear").fit(X[50:], y[50:])
    plot.weights(one, ax=axes)
    widths = [bar.get_width() for bar in drawn(axes).patches]
    assert min(widths) < 0 and len(widths) == np.count_nonzero(one.weights_)
    assert np.all(np.diff(np.abs(widths)) <= 0) and axes.get_xlim()[0] < min(widths)
    several = kw.recipe("cabmkl-linear").fit(X, y)
    [image] = plot.weights(several, ax=plot.canvas()).images
    assert image.get_clim()[0] == -image.get_clim()[1] == -np.abs(several.weights_).max()


def test_convergence_shows_the_gap_down_to_tol(binary, axes):
    plot.convergence(binary, ax=axes)
    drawn(axes)
    gap = axes.lines[0].get_ydata()
    assert axes.get_yscale() == "log"
    assert np.min(gap) <= binary.tol
    assert gap[0] == 1.0 and axes.lines[0].get_xdata()[0] == 0.0  # nothing is known before the first bounds
    assert len(axes.lines) == (4 if len(binary.history_.gap) > 1 else 2)


def test_convergence_of_several_problems_has_a_line_each(multiclass, axes):
    plot.convergence(multiclass, ax=axes)
    labels = [text.get_text() for text in drawn(axes).get_legend().get_texts()]
    assert labels == ["0", "1", "2", "tol = 0.001"]


def test_path_shows_the_weights_along_C(data, axes):
    X, y = data
    path = kw.path(kw.MKLClassifier(BANK), X[50:], y[50:], C=[10.0, 0.1, 1.0])
    plot.path(path, ax=axes)
    drawn(axes)
    assert axes.get_xscale() == "log"
    assert len(axes.lines) == len(BANK) + 3  # one bank entry stands for each of the four columns
    np.testing.assert_allclose(axes.lines[-1].get_xdata(), [0.1, 1.0, 10.0])


def test_pipelines_and_searches_are_looked_through(data, axes):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), kw.MKLClassifier(BANK))
    search = GridSearchCV(pipeline, {"mklclassifier__C": [1.0]}, cv=2).fit(X[50:], y[50:])
    plot.weights(search, ax=axes)
    plot.convergence(search, ax=plot.canvas())


def test_a_new_figure_is_made_when_no_axes_are_given(binary):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    for draw in (plot.weights, plot.convergence):
        pyplot.close(draw(binary).figure)


def test_refusals(binary, axes):
    with pytest.raises(ValueError, match="fit it first"):
        plot.weights(kw.MKLClassifier())
    with pytest.raises(ValueError, match="top must be at least 1"):
        plot.weights(binary, top=0, ax=axes)
    with pytest.raises(ValueError, match="names has 1 entries"):
        plot.weights(binary, ax=axes, names=["one"])


def test_missing_matplotlib_names_the_extra(binary, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install kernelweave\[plot\]"):
        plot.weights(binary)


def test_summary_tells_weights_gap_and_status(binary, multiclass):
    for model in (binary, multiclass):
        text = model.summary()
        heaviest = model.kernel_names_[int(np.argmax(np.atleast_2d(model.weights_).mean(axis=0)))]
        assert text.splitlines()[3].startswith(heaviest)
        assert f"{model.dual_gap_:.1e}" in text
        assert "support vectors" in text


def test_kernels_by_weight_counts_what_it_leaves_out():
    text = tables.kernels_by_weight(["a", "b", "c", "d"], np.array([0.5, 0.0, 0.3, 0.2]), top=1)
    assert text.splitlines()[1].startswith("a")
    assert text.endswith("and 2 more with weight, 50.0 % together")


def test_kernels_by_weight_with_no_weight_at_all():
    assert "constant" in tables.kernels_by_weight(["a"], np.zeros(1))


def test_what_cannot_be_drawn_says_why(binary):
    with pytest.raises(ValueError, match="without weights of products"):
        plot.pairs(binary)
    with pytest.raises(ValueError, match="fit it first"):
        plot.pairs(kw.MKLClassifier(BANK))
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    stream = kw.recipe("ufo-mkl", approximation=kw.Nystroem(rank=5)).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="learned from a stream"):
        plot.convergence(stream)


def test_certificates_of_several_problems_are_a_table(multiclass):
    header, *lines = repr(multiclass.certificate()).splitlines()
    assert header.split() == ["problem", "lower", "bound", "upper", "bound", "relative", "gap"]
    assert [line.split()[0] for line in lines] == multiclass.problem_names_
    assert max(float(line.split()[-1]) for line in lines) == pytest.approx(multiclass.dual_gap_, rel=1e-2)


def test_tables_fit_the_width_asked_for():
    rows = [["name", "some words that take more room than there is"], ["longer name", "few words"]]
    text = tables.fitted(rows, ["a", "b"], 32)
    assert max(map(len, text.splitlines())) <= 32
    assert all(word in text for row in rows for cell in row for word in cell.split())


def test_selection_draws_every_candidate_and_marks_the_best(data, axes):
    X, y = data
    clf = kw.MKLClassifierCV(BANK, Cs=[0.1, 1.0, 10.0], candidates=["uniform", "l1"], cv=3, drop=False).fit(X, y)
    drawn = plot.selection(make_pipeline(StandardScaler(), clf), ax=axes)
    lines = [line for line in drawn.get_lines() if len(line.get_xdata()) == 3]
    assert len(lines) == 2
    for line, name in zip(lines, ["uniform", "l1"], strict=True):
        here = clf.cv_results_["param_candidate"] == name
        np.testing.assert_allclose(line.get_ydata(), clf.cv_results_["mean_test_score"][here])
    marked = drawn.get_lines()[-1]
    assert marked.get_ydata()[0] == clf.best_score_
    assert clf.best_candidate_ in drawn.get_title(loc="left")
    clf.cv_results_["split2_test_score"][3:] = np.nan
    assert "l1, dropped after 2 folds" in [text.get_text() for text in plot.selection(clf).get_legend().get_texts()]


def test_stability_draws_what_is_selected(data, axes):
    X, y = data
    found = kw.stability(kw.MKLClassifier(BANK), X[50:], y[50:], n_resamples=4, decoys=True, random_state=0)
    drawn = plot.stability(found, ax=axes)
    shown = np.sort(found.frequencies[found.frequencies > 0])[::-1]
    np.testing.assert_allclose([bar.get_width() for bar in drawn.patches], shown[:20])
    assert f"{found.selected.sum()} of {len(found.frequencies)} kernels selected" in drawn.get_title(loc="left")
    with pytest.raises(ValueError, match="top must be"):
        plot.stability(found, top=0)
