"""The command line: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import kernelweave as kw
from kernelweave.cli import CommandError, main, parse_kernels

TARGET = "kind"


@pytest.fixture(scope="module")
def frame():
    """Two kinds of iris, 60 rows, four measurements and a label in words."""
    iris = load_iris(as_frame=True)
    table = iris.data.iloc[50:150:2].rename(columns=lambda name: name.removesuffix(" (cm)"))
    table[TARGET] = np.array(iris.target_names)[iris.target.iloc[50:150:2]]
    return table.reset_index(drop=True)


@pytest.fixture
def table(frame, tmp_path):
    """The same as a CSV file."""
    file = tmp_path / "iris.csv"
    frame.to_csv(file, index=False)
    return file


def run(*words):
    return main([str(word) for word in words])


def fit(table, *words):
    return run("fit", table, "--target", TARGET, *words)


def read(file):
    with open(file, newline="", encoding="utf-8") as opened:
        return list(csv.reader(opened))


def test_fit_prints_the_summary_and_the_test_accuracy(table, capsys):
    assert fit(table, "--test-size", "0.3") == 0
    out = capsys.readouterr().out
    assert "kernels in use" in out
    assert "relative gap" in out
    assert "on 15 rows held out" in out


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_fit_predict_and_info_on_tables(frame, tmp_path, suffix, capsys):
    table, model, out = tmp_path / f"iris.{suffix}", tmp_path / "model.kw", tmp_path / "predicted.csv"
    if suffix == "parquet":
        frame.to_parquet(table)
    else:
        frame.to_csv(table, index=False, sep="\t" if suffix == "tsv" else ",")
    assert fit(table, "--C", "10", "--out", model) == 0
    assert run("predict", model, table, "--out", out, "--scores") == 0
    assert "accuracy" in capsys.readouterr().err
    header, *rows = read(out)
    assert header == ["prediction", "score virginica"]
    assert np.mean([row[0] for row in rows] == frame[TARGET]) > 0.9
    assert all((float(score) > 0) == (label == "virginica") for label, score in rows)
    assert run("info", model) == 0
    assert "classes versicolor, virginica" in capsys.readouterr().out


def test_predict_takes_columns_by_name_and_needs_no_target(frame, table, tmp_path, capsys):
    model, other = tmp_path / "model.kw", tmp_path / "other.csv"
    fit(table, "--out", model)
    run("predict", model, table)
    expected = capsys.readouterr().out.split("prediction\n")[1]
    frame.drop(columns=TARGET).iloc[:, ::-1].assign(extra="unused").to_csv(other, index=False)
    assert run("predict", model, other) == 0
    printed = capsys.readouterr()
    assert printed.out.split("prediction\n")[1] == expected
    assert "accuracy" not in printed.err


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_counts_columns_as_the_training_file_does(frame, tmp_path, zero_based, capsys):
    X, y = frame.drop(columns=TARGET).to_numpy(), np.where(frame[TARGET] == "virginica", 1, -1)
    table, part, model = tmp_path / "iris.svm", tmp_path / "part.libsvm", tmp_path / "model.kw"
    dump_svmlight_file(X, y, str(table), zero_based=zero_based)
    blank = X * (np.arange(X.shape[1]) == 1)  # the first column and the last two never occur
    dump_svmlight_file(blank, y, str(part), zero_based=zero_based)
    assert run("fit", table, "--kernels", "linear", "rbf:0.1", "--out", model) == 0
    capsys.readouterr()
    assert run("predict", model, part) == 0
    predicted = capsys.readouterr().out.split()[1:]
    pipeline = kw.load(model)
    assert predicted == [str(label) for label in pipeline.predict(blank)]


def test_text_columns_are_encoded_on_request(frame, tmp_path, capsys):
    table, model = tmp_path / "text.csv", tmp_path / "model.kw"
    frame.assign(colour=np.where(frame.index % 3, "red", "blue")).to_csv(table, index=False)
    assert fit(table, "--encode", "onehot", "--kernels", "linear@colour_red,colour_blue", "rbf:0.1@each") == 0
    printed = capsys.readouterr()
    assert "each value of colour" in printed.err
    assert "of 7 kernels" in printed.out
    assert fit(table, "--encode", "onehot", "--scale", "none", "--out", model) == 0
    assert run("predict", model, table) == 0


def test_penalty_and_p_reach_the_classifier(table, tmp_path):
    model = tmp_path / "model.kw"
    words = ["--penalty", "lp", "--p", "3", "--C", "5", "--tol", "0.01", "--kernels", "rbf:0.1,1", "linear"]
    assert fit(table, *words, "--out", model) == 0
    classifier = kw.load(model)[-1]
    assert (classifier.penalty.p, classifier.C, classifier.tol) == (3, 5, 0.01)
    assert len(classifier.weights_) == 3
    assert classifier.dual_gap_ <= 0.01


@pytest.mark.parametrize("name", ["nystroem", "cholesky", "random_features"])
def test_approximation_and_rank_reach_the_classifier(table, tmp_path, name, capsys):
    model = tmp_path / "model.kw"
    words = ["--approximation", name, "--rank", "6", "--kernels", "rbf:0.1,1", "--seed", "3"]
    assert fit(table, *words, "--out", model) == 0
    assert "certified for the approximated kernels" in capsys.readouterr().out
    classifier = kw.load(model)[-1]
    assert (classifier.approximation.rank, classifier.random_state) == (6, 3)
    assert "2 kernels, 12 columns" in classifier.storage_
    assert run("predict", model, table) == 0
    assert run("info", model) == 0
    assert "off by at most" in capsys.readouterr().out


def test_recipes_lists_the_papers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("recipes") == 0
    out = capsys.readouterr().out
    assert out.split()[:3] == ["name", "paper", "convex"]
    assert "skm" in out and max(map(len, out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "400")
    assert run("recipes") == 0
    out = capsys.readouterr().out
    assert out.split()[:3] == ["name", "paper", "minimises"] and "approximation=Nystroem()" in out


def test_recipes_shows_those_named(capsys):
    assert run("recipes", "skm", "nuc-mkl") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["name", "skm"] and "lp-beta" not in out
    assert run("recipes", "SimpleMKL") == 2
    assert "recipe 'SimpleMKL' is not known: use 'simplemkl', or choose one of skm" in capsys.readouterr().err


def test_recipes_for_programs(capsys):
    rows = kw.recipes().rows()
    assert run("recipes", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert run("recipes", "--format", "csv") == 0
    assert list(csv.DictReader(io.StringIO(capsys.readouterr().out))) == rows


@pytest.mark.parametrize(
    ("specs", "count"),
    [
        (["rbf:0.01,0.1,1"], 3),
        (["rbf:scale"], 1),
        (["rbf"], 1),
        (["polynomial:1,2,3", "linear", "cosine"], 5),
        (["laplacian:0.5@0,2", "chi2:1@0:3", "sigmoid:0.1", "histogram-intersection@age"], 4),
    ],
)
def test_kernel_specs(specs, count):
    assert len(parse_kernels(specs)) == count


def test_kernel_specs_name_columns():
    assert parse_kernels(["auto"]) == "auto"
    kernels = parse_kernels(["rbf:1@each", "linear@age, income", "linear@0,2", "linear@1:4"])
    assert kernels[0].on == "each"
    assert [list(kernel.on) for kernel in kernels[1:]] == [["age", "income"], [0, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rbf:wide", "give gamma as numbers"),
        ("polynomial:2.5", "give degree as whole numbers"),
        ("linear:3", "takes no values"),
        ("gaussian", "known: linear"),
        ("rbf:1@", "name the columns"),
    ],
)
def test_bad_kernel_specs(spec, message):
    with pytest.raises(CommandError, match=message):
        parse_kernels([spec])


def bad_requests():
    """Change to the table, further words of the command, and what the message must say."""
    label = TARGET
    yield "no target", lambda t: t, ["--target", "kin"], "Did you mean kind? It has 5 columns: sepal length"
    yield "text", lambda t: t.assign(name="a"), [], "not numbers: name"
    yield (
        "missing",
        lambda t: t.assign(hole=np.where(t.index == 3, np.nan, 1.0)),
        [],
        "missing values in hole",
    )
    yield "infinite", lambda t: t.assign(far=np.inf), [], "infinite values in far"
    yield "missing label", lambda t: t.assign(kind=t[label].where(t.index > 2)), [], "kind has missing values"
    yield "fractions", lambda t: t.assign(kind=t["petal length"] + 0.05), ["--task", "classification"], "needs classes"
    yield "one class", lambda t: t.assign(kind="a"), [], "class"
    yield "nothing else", lambda t: t[[label]], [], "no column besides"
    yield "no rows", lambda t: t.iloc[:0], [], "no rows"
    yield "C", lambda t: t, ["--C", "-1"], "C must be"
    yield "p alone", lambda t: t, ["--p", "2"], "--p goes with --penalty lp"
    yield "p", lambda t: t, ["--penalty", "lp", "--p", "0.5"], "p"
    yield "penalty", lambda t: t, ["--penalty", "l7"], "l1"
    yield "column", lambda t: t, ["--kernels", "rbf:1@petal lenght"], "petal length"
    yield "negative for chi2", lambda t: t, ["--kernels", "chi2:1"], "negative"
    yield "rank alone", lambda t: t, ["--rank", "5"], "--rank goes with --approximation"
    yield "rank", lambda t: t, ["--approximation", "nystroem", "--rank", "0"], "rank of Nystroem must be"
    yield "no waves", lambda t: t, ["--approximation", "random_features", "--kernels", "linear"], "nystroem"
    yield "recipe", lambda t: t, ["--recipe", "skn"], "recipe 'skn' is not known: use 'skm'"
    yield "recipe and cv", lambda t: t, ["--recipe", "skm", "--cv", "3"], "leave one of them out"
    yield "C and cv", lambda t: t, ["--C", "2", "--cv", "3"], "--cv chooses C"
    yield "solver", lambda t: t, ["--solver", "magic"], "magic"
    yield "solver of another", lambda t: t, ["--recipe", "gmkl", "--solver", "sqp"], "--solver is not for --recipe gmkl"
    yield "picture", lambda t: t, ["--plot", "weights.xyz"], "xyz"
    yield "auto and more", lambda t: t, ["--kernels", "auto", "rbf"], "stands alone"


@pytest.mark.parametrize(("change", "words", "message"), [pytest.param(*r, id=i) for i, *r in bad_requests()])
def test_bad_requests_get_one_sentence(frame, tmp_path, capsys, change, words, message):
    table = tmp_path / "table.csv"
    change(frame).to_csv(table, index=False)
    assert fit(table, *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("kernelweave: ")
    assert message in error
    assert "Traceback" not in error


def test_bad_files_get_one_sentence(table, tmp_path, capsys):
    model, empty, torn = tmp_path / "m.kw", tmp_path / "empty.csv", tmp_path / "torn.parquet"
    lines = tmp_path / "words.svm"
    empty.touch()
    torn.write_bytes(b"PAR1 and nothing more")
    lines.write_text("not a number 1:2\n")
    fit(table, "--out", model)
    capsys.readouterr()
    requests = {
        ("fit", tmp_path / "absent.csv", "--target", "a"): "there is no file",
        ("fit", tmp_path / "table.xls", "--target", "a"): "must end in one of",
        ("fit", empty, "--target", "a"): "could not be read as csv",
        ("fit", torn, "--target", "a"): "could not be read as parquet",
        ("fit", lines): "could not be read as svmlight",
        ("fit", lines, "--target", "a"): "not for svmlight",
        ("fit", table): "--target is needed",
        ("info", table): "cannot be opened as a model",
        ("info", tmp_path / "absent.kw"): "there is no file",
        ("predict", model, lines): "must be of the kind",
    }
    for words, message in requests.items():
        assert run(*words) == 2
        error = capsys.readouterr().err
        assert error.startswith("kernelweave: ") and message in error


def test_predict_refuses_other_columns(frame, table, tmp_path, capsys):
    model, other = tmp_path / "m.kw", tmp_path / "other.csv"
    fit(table, "--out", model)
    frame.drop(columns="petal width").to_csv(other, index=False)
    assert run("predict", model, other) == 2
    assert "lacks columns the model was fitted on: petal width" in capsys.readouterr().err
    frame.assign(**{"petal width": "wide"}).to_csv(other, index=False)
    assert run("predict", model, other) == 2
    assert "text where the model was fitted on numbers: petal width" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["fly"], ["fit"], ["fit", "a.csv", "--test-size", "2"], ["fit", "a", "--C", "x"]]
)
def test_bad_usage_exits_with_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "usage: kernelweave" in capsys.readouterr().err


def test_an_output_folder_that_is_not_there_is_refused_first(table, tmp_path, capsys):
    with pytest.raises(SystemExit):
        fit(table, "--out", tmp_path / "absent" / "m.kw")
    assert "does not exist" in capsys.readouterr().err


def test_missing_pandas_names_the_extra(table, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert fit(table) == 2
    assert "pip install kernelweave[cli]" in capsys.readouterr().err


def test_demo_prints_the_comparison_and_saves_a_picture(tmp_path, capsys):
    assert run("demo", "--out", tmp_path / "new") == 0
    out = capsys.readouterr().out
    assert "kernels in use" in out and "relative gap" in out
    for machine in ("multiple kernels, l1", "SVC, best single kernel", "SVC, average of all kernels"):
        [line] = [line for line in out.splitlines() if line.startswith(machine)]
        assert 0.9 < float(line.split()[-1]) <= 1
    picture = tmp_path / "new" / "kernelweave-demo-weights.png"
    assert str(picture) in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("demo", "--out", tmp_path) == 0
    assert "pip install kernelweave[plot]" in capsys.readouterr().out


def test_integer_labels_stay_integers(frame, tmp_path, capsys):
    table, model = tmp_path / "numbers.csv", tmp_path / "m.kw"
    labels = pd.Series(np.where(frame[TARGET] == "virginica", 3.0, 7.0))
    frame.assign(kind=labels).to_csv(table, index=False)
    fit(table, "--out", model)
    capsys.readouterr()
    assert run("predict", model, table) == 0
    printed = capsys.readouterr()
    assert set(printed.out.split()[1:]) == {"3", "7"}
    assert "accuracy" in printed.err


def test_recipe_solver_and_picture(table, tmp_path, capsys):
    model, picture = tmp_path / "m.kw", tmp_path / "weights.svg"
    words = ["--kernels", "rbf:0.1,1", "linear", "--out", model, "--plot", picture]
    assert fit(table, "--recipe", "lp-mkl", "--solver", "smo", *words) == 0
    classifier = kw.load(model)[-1]
    assert (classifier.penalty, classifier.solver_, len(classifier.weights_)) == ("lp", "smo", 3)
    assert b"<svg" in picture.read_bytes() and str(picture) in capsys.readouterr().out
    assert fit(table, "--recipe", "gmkl", "--out", model) == 0
    assert type(kw.load(model)[-1]).__name__ == "NonconvexMKLClassifier"


def test_cross_validation_chooses(frame, table, tmp_path, capsys):
    model = tmp_path / "m.kw"
    assert fit(table, "--cv", "2", "--penalty", "lp", "--kernels", "rbf:0.1,1", "--out", model) == 0
    line = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chosen")]
    chosen = kw.load(model)[-1]
    assert len(line) == 1 and f"score {chosen.best_score_:.4f}" in line[0] and chosen.cv == 2
    assert run("predict", model, table) == 0
    numbers = tmp_path / "numbers.csv"
    frame.drop(columns=TARGET).to_csv(numbers, index=False)
    assert run("fit", numbers, "--target", "petal width", "--cv", "2", "--penalty", "l1", "--kernels", "rbf:0.1") == 0
    assert run("fit", numbers, "--task", "outliers", "--cv", "2") == 2
    assert "--cv is not for --task outliers" in capsys.readouterr().err
