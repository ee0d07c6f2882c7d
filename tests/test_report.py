"""The report of a model: every task has its sections, the page is whole, holds what it says and fetches nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.cli import main
from kernelweave.report import charts
from kernelweave.report.sections import _kaplan_meier
from kernelweave.tables import group_shares

VOID = {"meta", "link", "line", "path", "circle", "rect"}
BANK = K.rbf(factor=[0.25, 4.0]) + K.linear()


class Reader(HTMLParser):
    """Reads a page, and refuses one whose elements are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.titles, self.words, self.addresses, self.ids = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.addresses += [attrs[name] for name in ("href", "src") if name in attrs]
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "h2":
            self.titles.append(data)
        if "script" not in self.open and "style" not in self.open:
            self.words.append(data)

    def handle_decl(self, decl):
        assert decl == "DOCTYPE html"


def read(file):
    reader = Reader()
    reader.feed(file.read_text(encoding="utf-8"))
    assert not reader.open
    return reader


def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X.iloc[:120], y.iloc[:120]


def cases():
    """Yield a name, a fitted model, samples, targets, and sections that the page must have beside the usual ones."""
    iris, y = load_iris(return_X_y=True)
    X, numbers = diabetes()
    high = np.asarray(numbers > 150)
    yield "two classes", kw.MKLClassifier(BANK, loss="logistic").fit(X, high), X, high, {"How good it is"}
    yield "three classes", kw.MKLClassifier(BANK).fit(iris, y), iris, y, {"How good it is", "Weights along C"}
    yield "no targets", kw.MKLClassifier(BANK).fit(iris, y), iris, None, set()
    yield "numbers", kw.MKLRegressor(BANK).fit(X, numbers), X, numbers, {"How good it is"}
    both = np.column_stack([numbers, -numbers])
    yield "two targets", kw.MKLRegressor(BANK).fit(X, both), X, both, {"How good it is"}
    chosen = kw.MKLRegressorCV(BANK, Cs=[1.0], candidates=["l1"], cv=2).fit(X, numbers)
    yield "chosen", chosen, X, numbers, {"Weights along C"}
    yield "outliers", kw.MKLOutlierDetector(BANK).fit(X), X, None, {"How good it is"}
    events = np.column_stack([high, numbers])
    yield "survival", kw.MKLSurvival(BANK).fit(X, events), X, events, {"How good it is"}
    named = np.array([(t, bool(e)) for e, t in events], dtype=[("days", float), ("died", bool)])
    yield "time first", kw.MKLSurvival(BANK).fit(X, named), X, named, {"How good it is"}
    views = {"left": X.iloc[:, :5], "right": X.iloc[:, 5:]}
    fewer = {"left": views["left"], "right": views["right"].iloc[20:]}
    lacking = kw.MKLClassifier(K.views(widths=[1.0]), missing="absent").fit(fewer, high)
    yield "missing views", lacking, fewer, high, {"How good it is", "Kernels that say the same"}
    yield "views", kw.MKLClassifier("views", penalty="spectral").fit(views, high), views, high, {"Products of kernels"}
    scaled = make_pipeline(StandardScaler(), kw.MKLClassifier(BANK))
    yield "search", GridSearchCV(scaled, {"mklclassifier__C": [1.0]}, cv=2).fit(X, high), X, high, {"Weights along C"}
    features = kw.MKLClassifier(BANK, approximation=kw.Nystroem(rank=5), random_state=0).fit(X, high)
    yield "features", features, X, high, {"How good it is"}
    yield "not convex", kw.NonconvexMKLClassifier(BANK).fit(X, high), X, high, {"How good it is"}
    stack = np.stack([X @ X.T, (X @ X.T) ** 2], axis=2)
    yield "precomputed", kw.MKLClassifier(K.precomputed(["a", "b"])).fit(stack, high), stack, high, {"How good it is"}
    texts = [f"{'ab' if one else 'ba'}{i}" for i, one in enumerate(high)]
    yield "strings", kw.MKLClassifier(K.spectrum([1, 2])).fit(texts, high), texts, high, {"How good it is"}
    stream = kw.recipe("ufo-mkl", BANK, approximation=kw.Nystroem(rank=5), random_state=0)
    yield "stream", stream.partial_fit(X, high, classes=[False, True]), X, high, {"How good it is"}


@pytest.mark.parametrize(("model", "X", "y", "extra"), [pytest.param(*rest, id=name) for name, *rest in cases()])
def test_every_model_has_a_whole_page(model, X, y, extra, tmp_path):
    page = read(kw.report(model, X, y, tmp_path / "report.html", samples=25))
    always = {"What was asked", "Certificate", "Weights", "Samples", "Data and versions"}
    assert always | extra <= set(page.titles)
    assert ("How good it is" in page.titles) == ("How good it is" in extra or y is not None)
    assert len(set(page.ids)) == len(page.ids)
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert not re.search(r"\b(nan|inf|NaN|None)\b", " ".join(page.words).replace("none given", ""))


def test_the_page_says_what_the_model_says(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    clf = kw.MKLClassifier(K.views({"mean": range(10), "worst": range(20, 30)}, widths=[1.0])).fit(X[:300], y[:300])
    words = " ".join(read(kw.report(clf, X[300:], y[300:], tmp_path / "r.html")).words)
    assert f"Accuracy {clf.score(X[300:], y[300:]):.4f} on 269 samples" in words
    for name, share in group_shares(clf.kernel_groups_, clf.weights_).items():
        assert f"{name} {100 * share:.1f} %" in words
    assert f"within {clf.dual_gap_:.2g} of it" in words
    assert "The first 200 of 269 samples" in words and "SHA-256" in words
    assert f"kernelweave {kw.__version__}" in words


def test_contributions_stand_beside_the_samples(tmp_path):
    X, y = load_iris(return_X_y=True)
    X, y = {"sepal": X[50:, :2], "petal": X[50:, 2:]}, y[50:]
    clf = kw.MKLClassifier("views").fit(X, y)
    text = kw.report(clf, X, y, tmp_path / "r.html", along_C=False).read_text(encoding="utf-8")
    heads = re.findall(r'aria-sort="none"><button type="button">([^<]*)</button>', text)
    assert heads[:4] == ["sample", "truth", "said", "decision value"] and set(heads[4:]) == {"petal", "sepal"}
    rows = np.array([[float(key) for key in re.findall(r'data-key="([^"]*)"', row)] for row in
                     re.findall(r"<tr><td>\d+</td>.*?</tr>", text)])  # fmt: skip
    np.testing.assert_allclose(rows[:, 1:].sum(axis=1) + clf.intercept_, rows[:, 0], atol=1e-9)


def test_effects_and_stability_have_their_sections(tmp_path):
    X, y = diabetes()
    model = kw.MKLRegressor(K.rbf(on="each")).fit(X, y)
    found = kw.stability(model, X, y, n_resamples=4, random_state=0)
    page = read(kw.report(model, X, y, tmp_path / "r.html", stability=found))
    assert {"Effects", "Stability"} <= set(page.titles)
    words = " ".join(page.words)
    assert f"{100 * model.effects_[0].share:.1f} %" in words and f"{100 * found.frequencies.max():.0f} %" in words


def test_what_is_written_is_escaped(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["<b>", "a&b"])
    y = np.where(np.arange(20) % 2, "<script>alert(1)</script>", "&")
    clf = kw.MKLClassifier(K.linear(on="each") + K.rbf(group="<i>")).fit(X, y)
    text = kw.report(clf, X, y, tmp_path / "r.html", title="<u>title</u>").read_text(encoding="utf-8")
    assert "<script>alert" not in text and "<b>" not in text and "<i>" not in text and "<u>" not in text
    read(tmp_path / "r.html")


def test_fingerprints_tell_data_apart(tmp_path):
    X, y = diabetes()
    clf = kw.MKLRegressor(BANK).fit(X, y)

    def prints(samples):
        text = kw.report(clf, samples, y, tmp_path / "r.html", along_C=False).read_text(encoding="utf-8")
        return re.findall(r"SHA-256 [0-9a-f]{16}", text)

    assert prints(X) == prints(X.copy())
    assert prints(X)[0] != prints(X + 1e-9)[0] and prints(X)[1] == prints(X + 1e-9)[1]


def test_survival_curves_are_those_of_kaplan_and_meier(rng):
    from sksurv.nonparametric import kaplan_meier_estimator

    event, time = rng.random(50) < 0.6, np.ceil(10 * rng.random(50))
    times, share = _kaplan_meier(event.astype(float), time)
    expected_times, expected = kaplan_meier_estimator(event, time)
    np.testing.assert_allclose(times[1:], expected_times)
    np.testing.assert_allclose(share[1:], expected)


@pytest.mark.parametrize(("low", "high", "log"), [(0, 1, False), (-3, 250, False), (1e-4, 1e3, True), (5, 5, False)])
def test_ticks_are_round_and_inside(low, high, log):
    axis = charts.Axis(np.array([low, high]), 0.0, 100.0, log)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 13
    assert all(-1e-9 <= axis(tick) <= 100.0 + 1e-9 for tick in ticks)
    assert axis(high) >= axis(low)


@pytest.mark.parametrize(
    ("model", "more", "error", "message"),
    [
        (kw.MKLClassifier(), {}, ValueError, "fit it first"),
        (StandardScaler(), {}, TypeError, "estimator of kernelweave"),
        (None, {"samples": 0}, ValueError, "samples must be at least 1"),
        (None, {"y": [1, 2]}, ValueError, "y has 2 entries"),
        (kw.MKLClassifier(BANK).fit(np.eye(9), np.arange(9) % 2), {"y": ["a"] * 120}, ValueError, "none of the"),
    ],
)
def test_refusals(model, more, error, message, tmp_path):
    X, y = diabetes()
    model = kw.MKLRegressor(BANK).fit(X, y) if model is None else model
    X = np.zeros((120, 9)) if isinstance(model, kw.MKLClassifier) else X
    with pytest.raises(error, match=message):
        kw.report(model, X, more.pop("y", y), tmp_path / "r.html", **more)


def test_reports_from_the_command_line(tmp_path, capsys):
    data, model = tmp_path / "iris.csv", tmp_path / "m.kw"
    load_iris(as_frame=True).frame.to_csv(data, index=False)
    words = ["fit", data, "--target", "target", "--test-size", "0.3", "--out", model, "--report", tmp_path / "a.html"]
    assert main([str(word) for word in words]) == 0
    assert "looked at with 45 samples" in " ".join(read(tmp_path / "a.html").words)
    assert main(["report", str(model), str(data), "--out", str(tmp_path / "b.html")]) == 0
    assert "looked at with 150 samples" in " ".join(read(tmp_path / "b.html").words)
    assert "report written to" in capsys.readouterr().out
    load_iris(as_frame=True).data.to_csv(data, index=False)
    assert main(["report", str(model), str(data), "--out", str(tmp_path / "c.html")]) == 0
    assert "has no target" in capsys.readouterr().err
    assert "How good it is" not in read(tmp_path / "c.html").titles
