"""Model files: everything fitted comes back the same, and nothing in a foreign file is run."""

from __future__ import annotations

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import modelfile, penalties
from kernelweave.cli import main
from registry import spelled

skops = pytest.importorskip("skops.io")

N = 24
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0).astype(int)
Y3 = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
EVENTS = np.column_stack([np.arange(N) % 3 > 0, 1.0 + np.arange(N)])
STACK = np.stack([X @ X.T, (X @ X.T + 1.0) ** 2, X[:, :1] @ X[:, :1].T], axis=2)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(colour=np.where(Y, "red", "blue"))
NUMBERS, WAVES = FRAME[list("abcd")], kw.RandomFeatures(rank=6)
TABLES = {name: pd.DataFrame(X[:, [k]], [f"patient {i}" for i in range(N)]) for k, name in enumerate("abc")}
BANK = K.rbf(gamma=[0.1, 1.0]) + K.linear(on=[0, 1])
ALGEBRA = [K.RBF(gamma=0.1) * K.Linear(on=[0, 1]), (2.0 * K.RBF()).normalised(), K.Linear() + K.Constant()]
EFFECTS = K.effects(on=0) + K.effects(on=1) + K.linear()
PENALTIES = {
    "l1": penalties.L1(),
    "l1 prices": penalties.L1(np.array([1.0, 0.8, 1.3])),
    "lp": penalties.Lp(1.5),
    "squared lp": penalties.SquaredLp(1.5),
    "elastic net": penalties.ElasticNet(),
    "mixed": penalties.Mixed(),
    "group": penalties.Group(["a", "a", "b"]),
    "moreau-yosida": penalties.MoreauYosida(a=0.5),
    "fixed": penalties.Fixed(np.array([0.5, 0.2, 0.3])),
    "spectral": penalties.SpectralNorm(),
    "alignment": kw.weightings.Alignment(),
    "centred alignment": kw.weightings.CentredAlignment(),
    "easymkl": kw.weightings.EasyMKL(),
}
GAPS = STACK.copy()
GAPS[2, :, 1] = GAPS[:, 2, 1] = np.nan
REPRESENTATIONS = {  # three kernels, samples, and how they are held
    "stored": (ALGEBRA, X, {}),
    "single precision": (BANK, X.astype(np.float32), {}),
    "on demand": (BANK, X, {"memory": 8e3}),
    "sparse": (BANK, csr_matrix(X), {}),
    "precomputed": (K.precomputed(["one", "two", "three"], ["a", None, "b"]), STACK, {}),
    "nystroem": (BANK, X, {"approximation": kw.Nystroem(rank=5), "random_state": 0}),
    "cholesky": (BANK, X, {"approximation": "cholesky", "random_state": np.random.RandomState(0)}),
    "random features": (K.rbf(gamma=[0.1, 0.3, 1.0]), X, {"approximation": WAVES, "random_state": 0}),
    "shared": (BANK, X, {"approximation": kw.SharedBasis(rank=6), "random_state": 0}),
    "effects": ("effects", X[:, :2], {"approximation": "explicit"}),
    "explicit": (EFFECTS, X[:, :2], {"approximation": "explicit"}),
    "lacking tables": (
        K.views(widths=[1.0], linear=False), {**TABLES, "b": TABLES["b"].iloc[4:]}, {"missing": "absent"}
    ),
    "lacking kernels": ("precomputed", GAPS, {"missing": "absent"}),
}  # fmt: skip
CHOICE = {"Cs": [1.0], "cv": KFold(2)}
ESTIMATORS = {
    "two classes": (kw.MKLClassifier(), Y),
    "one against the rest": (kw.MKLClassifier(), Y3),
    "one against one": (kw.MKLClassifier(multiclass="ovo", loss="logistic"), Y3),
    "joint": (kw.MKLClassifier(multiclass="joint"), Y3),
    "softmax": (kw.MKLClassifier(multiclass="joint", loss="logistic"), Y3),
    "regression": (kw.MKLRegressor(), X[:, 0]),
    "two targets": (kw.MKLRegressor(), X[:, :2]),
    "each target": (kw.MKLRegressor(targets="each", loss="huber"), X[:, :2]),
    "quantile": (kw.MKLRegressor(loss=kw.losses.Quantile(0.7)), X[:, 0]),
    "outliers": (kw.MKLOutlierDetector(), None),
    "survival": (kw.MKLSurvival(), EVENTS),
    "chosen": (kw.MKLClassifierCV(**CHOICE), Y),
    "chosen numbers": (kw.MKLRegressorCV(**CHOICE), X[:, 0]),
    "chosen survival": (kw.MKLSurvivalCV(**CHOICE), EVENTS),
}
SEVERAL = ("joint", "softmax", "two targets")
NO_NUMBERS = (*SEVERAL, "outliers", "survival", "chosen survival")
REFUSED = {  # by penalties: the estimators that do not take them
    "spectral": SEVERAL,
    "alignment": NO_NUMBERS,
    "centred alignment": NO_NUMBERS,
    "easymkl": (*NO_NUMBERS, "regression", "quantile", "each target", "chosen numbers"),
}


def models():
    """Yield a name, a model that is not fitted, and what to fit and predict.

    Every estimator meets every penalty it takes and every representation, and every penalty every representation.
    """
    kinds = list(REPRESENTATIONS.items())
    for i, (name, (estimator, y)) in enumerate(ESTIMATORS.items()):
        for j, (mixing, penalty) in enumerate(PENALTIES.items()):
            kind, (bank, samples, more) = kinds[(i + j) % len(kinds)]
            if name == "outliers" and kind in ("effects", "explicit"):  # refused, as they are centred
                continue
            if name in REFUSED.get(mixing, ()) or (mixing, kind) == ("spectral", "shared"):
                mixing, penalty = "l1", PENALTIES["l1"]
            how = {"candidates": [penalty]} if "chosen" in name else {"penalty": penalty}
            model = clone(estimator).set_params(kernels=bank, tol=0.05, **how, **more)
            yield f"{name}, {mixing}, {kind}", model, samples, y
    rows = {
        "columns by name": (kw.MKLClassifier(K.rbf(on={"u": ["a", "b"], "v": slice("b", "d")})), NUMBERS, Y),
        "clipped": (kw.MKLClassifier(K.sigmoid(gamma=1.0) + K.rbf(), psd="clip"), X, Y),
        "blocks": (kw.MKLClassifier("views"), {"a": X[:, :2], "b": X[:, 2:]}, Y),
        "two levels": (kw.MKLClassifier("views"), pd.concat(TABLES, axis=1), Y),
        "calibrated": (kw.MKLClassifier(BANK, probability=True), X, Y),
        "own solver": (kw.MKLClassifier(BANK, solver=kw.solvers.SMO(), penalty="lp"), X, Y),
        "votes": (kw.BoostedMKLClassifier(BANK, cv=None), X, Y3),
        "votes on features": (kw.BoostedMKLClassifier(BANK, cv=2, approximation="nystroem", random_state=0), X, Y),
        "votes on a stack": (kw.BoostedMKLClassifier("precomputed", cv=None), STACK, Y),
        "two penalties": (kw.MKLClassifierCV(BANK, Cs=2, candidates=["l1", "single"], cv=2), X, Y),
        "scaled": (make_pipeline(MinMaxScaler(), kw.MKLClassifier(BANK)), X, Y),
        "encoded": (encoded(), FRAME, Y),
    }
    yield from ((name, *row) for name, row in rows.items())
    for model in ("nlmkl-p1", "gmkl", "lmkl-softmax", "lmkl-sigmoid"):
        yield model, kw.NonconvexMKLClassifier(BANK[:2], model=model, tol=0.1), X, Y


def encoded():
    parts = [("numbers", StandardScaler(), list("abcd")), ("text", OneHotEncoder(sparse_output=False), ["colour"])]
    prepare = ColumnTransformer(parts, verbose_feature_names_out=False).set_output(transform="pandas")
    return make_pipeline(prepare, kw.MKLClassifier(K.rbf(on="each")))


@pytest.mark.parametrize(("model", "samples", "y"), [pytest.param(*rest, id=name) for name, *rest in models()])
def test_models_come_back_the_same(model, samples, y, tmp_path):
    file = tmp_path / "model.kw"
    model.fit(samples) if y is None else model.fit(samples, y)
    kw.save(model, file, samples=hasattr(model, "classes_"))  # with the rows that effects_ needs, or without
    again = kw.load(file)
    assert type(again) is type(model)
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, method):
            np.testing.assert_array_equal(getattr(again, method)(samples), getattr(model, method)(samples))
    ours, theirs = (one[-1] if hasattr(one, "named_steps") else one for one in (model, again))
    assert theirs.summary() == ours.summary() and str(theirs.certificate()) == str(ours.certificate())
    assert spelled(theirs.get_params()) == spelled(ours.get_params())


def test_a_stream_goes_on_after_a_file(tmp_path):
    stream = kw.recipe("ufo-mkl", BANK, approximation=kw.Nystroem(rank=5), random_state=0)
    stream.partial_fit(X, Y, classes=[0, 1])
    kw.save(stream, tmp_path / "stream.kw")
    again = kw.load(tmp_path / "stream.kw").partial_fit(X, Y)
    np.testing.assert_array_equal(again.decision_function(X), stream.partial_fit(X, Y).decision_function(X))


def test_every_class_of_a_model_is_on_the_list():
    exported = {name for name in kw.__all__ if isinstance(getattr(kw, name), type)}
    estimators = {name.rpartition(".")[2] for name in modelfile.ESTIMATORS}
    assert {name for name in exported if issubclass(getattr(kw, name), modelfile.MKLEstimator)} == estimators
    for name in modelfile._objects():
        module, _, kind = name.rpartition(".")
        assert isinstance(getattr(pytest.importorskip(module), kind), type), name


# -- what is refused ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model and the bytes of its file."""
    file = tmp_path_factory.mktemp("models") / "model.kw"
    model = make_pipeline(StandardScaler(), kw.MKLClassifier(BANK)).fit(X, Y)
    kw.save(model, file)
    return model, file.read_bytes()


class Trap:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def rewritten(data, **members):
    """Return an archive with some members replaced, or left out for None."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            if name.replace(".", "_") not in members:
                new.writestr(name, old.read(name))
        for name, text in members.items():
            if text is not None:
                new.writestr(name.replace("_", "."), text)
    return buffer.getvalue()


def schema_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return json.loads(archive.read("schema.json"))


def entry(kind, name):
    module, _, cls = name.rpartition(".")
    return {"__loader__": kind, "__module__": module, "__class__": cls, "key_types": {}}


def text(word):
    return {**entry("JsonNode", "builtins.str"), "content": json.dumps(word), "is_json": True}


def replaced(data, protocol=2, **entry):
    """Return a file whose first parameter is another entry."""
    schema = schema_of(data)
    schema["content"]["content"]["memory"] = {"__id__": 1, **entry}
    return rewritten(data, schema_json=json.dumps({**schema, "protocol": protocol}))


def hostile(data):
    """Yield a name and the bytes of a file that must not be opened."""
    yield "empty", b""
    yield "text", b"kernelweave"
    yield "pickle", pickle.dumps(Trap())
    yield "old pickle", pickle.dumps(Trap(), protocol=0)
    buffer = io.BytesIO()
    joblib.dump({"format": "kernelweave-model-1", "pipeline": Trap()}, buffer, compress=3)
    yield "joblib", buffer.getvalue()
    yield "skops without a header", skops.dumps(kw.MKLClassifier(BANK).fit(X, Y))
    yield "skops of another model", rewritten(data, schema_json=read(skops.dumps(LogisticRegression()), "schema.json"))
    for kind, name in [
        ("FunctionNode", "os.system"),
        ("FunctionNode", "numpy.exp"),
        ("TypeNode", "subprocess.Popen"),
        ("ObjectNode", "subprocess.Popen"),
        ("ObjectNode", "sklearn.linear_model._logistic.LogisticRegression"),
        ("ObjectNode", "pathlib.Path"),
        ("ConstructorFromReduceNode", "kernelweave.penalties.norms.L1"),
        ("MethodNode", "kernelweave.penalties.norms.L1"),
        ("PartialNode", "functools.partial"),
        ("OperatorFuncNode", "operator.methodcaller"),
        ("BytesNode", "builtins.bytes"),
        ("NoSuchNode", "builtins.str"),
        ("DictNode", "os.environ"),
    ]:
        content = {"func": "x", "obj": {}, "args": {}, "kwds": {}, "namespace": {}}
        yield f"{kind} {name}", replaced(data, **entry(kind, name), content=content)
    yield from random_sources(data)
    yield "deep", rewritten(data, schema_json="[" * 100_000 + "]" * 100_000)
    yield "no schema", rewritten(data, schema_json=None)
    yield "no header", rewritten(data, kernelweave_json=None)
    yield "header of another", rewritten(data, kernelweave_json='{"format": "other"}')
    yield "header a list", rewritten(data, kernelweave_json="[]")
    yield "no notes", rewritten(data, kernelweave_json='{"format": "kernelweave-model", "format_version": 1}')
    yield "bomb", bomb(data, 2**28)
    yield "sparse bomb", rewritten(data, **{f"{'0' * 36}_npz": sparse_bomb()})
    yield "sparse beyond its columns", rewritten(data, **{f"{'0' * 36}_npz": beyond()})
    yield "array larger than it says", rewritten(data, **{f"{'0' * 36}_npy": array_of(10**12)})
    yield "array of objects", rewritten(data, **{f"{'0' * 36}_npy": objects()})
    yield "strange member", rewritten(data, run_py="print(1)")


def random_sources(data):
    """Yield the same for files whose random numbers come from something that is no source of them."""
    for name in ("seed", "test", "PCG64x"):
        source = {**entry("DictNode", "builtins.dict"), "content": {"bit_generator": text(name)}}
        numbers = entry("RandomGeneratorNode", "numpy.random._generator.Generator")
        for protocol in (0, 1, 2):
            parts = {"bit_generator": source if protocol else {"bit_generator": name}, "seed_seq": source}
            yield f"random numbers by {name}, {protocol}", replaced(data, protocol, **numbers, content=parts)


def read(data, name):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


def bomb(data, size):
    """Return a small file one of whose members is zeros, compressed."""
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a", compression=zipfile.ZIP_DEFLATED) as archive, archive.open(
        f"{'0' * 36}.npy", "w", force_zip64=True
    ) as member:
        for _ in range(size // 2**26):
            member.write(bytes(2**26))
    return buffer.getvalue()


def sparse_bomb():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("data.npy", "w") as member:
        for _ in range(5):
            member.write(bytes(2**26))
    return buffer.getvalue()


def beyond():
    buffer = io.BytesIO()
    facts = {"indices": np.array([10**6]), "indptr": np.array([0, 1]), "data": np.ones(1), "shape": np.array([1, 4])}
    np.savez(buffer, format=b"csr", **facts)
    return buffer.getvalue()


def array_of(count):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    return buffer.getvalue() + bytes(80)


def objects():
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def test_hostile_files_are_refused_and_nothing_runs(saved, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "model.kw"
    for name, data in hostile(saved[1]):
        file.write_bytes(data)
        with pytest.raises(ValueError, match=r"cannot be opened as a model of kernelweave: .*\.$"):
            kw.load(file)
        assert main(["info", str(file)]) == 2, name
        assert capsys.readouterr().err.startswith(f"kernelweave: {file} cannot be opened"), name
        assert not Path("sprung").exists(), name


def test_our_list_knows_what_makes_random_numbers(saved):
    found = {name: modelfile._strangers(schema_of(file)) for name, file in random_sources(saved[1])}
    assert len(found) == 9 and all("random generator of " in strange[-1] for strange in found.values())


def test_sparse_matrices_are_read_no_further_than_they_say(saved, tmp_path):
    file, size = tmp_path / "model.kw", 2**26
    file.write_bytes(rewritten(saved[1], **{f"{'0' * 36}_npz": understated(size)}))
    tracemalloc.start()
    with pytest.raises(ValueError, match="cannot be opened"):
        kw.load(file)
    assert tracemalloc.get_traced_memory()[1] < size / 4
    tracemalloc.stop()


def understated(size):
    """Return an archive whose member is zeros that it says are one byte."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(size))
    return buffer.getvalue().replace(struct.pack("<L", size), struct.pack("<L", 1))


NOTES = {
    "task": "classification", "target": "y", "event": None, "columns": list("abcd"), "text": [], "n_features": 4,
    "first_index": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [{"columns": 5}, {"columns": [1, 2]}, {"task": "survival"}, {"task": ["a"]}, {"n_features": "x"}, {"target": 3}],
    ids=str,
)
def test_notes_of_a_stranger_are_refused(saved, wrong, tmp_path, capsys):
    file, table = str(tmp_path / "model.kw"), str(tmp_path / "table.csv")
    NUMBERS.to_csv(table, index=False)
    kw.save(saved[0], file, notes=NOTES)
    assert main(["predict", file, table]) == 0
    kw.save(saved[0], file, notes=NOTES | wrong)
    for words in (["info", file], ["predict", file, table], ["report", file, table, "--out", f"{file}.html"]):
        assert main(words) == 2
        assert "was not saved by `kernelweave fit --out`" in capsys.readouterr().err


def test_training_rows_can_be_left_out(tmp_path):
    rows = np.linspace(-1.0, 1.0, 400)[:, None] + [0.0, 0.1]
    model = kw.MKLRegressor(K.rbf(on="each"), approximation=kw.Nystroem(rank=5), random_state=0).fit(rows, rows[:, 0])
    whole, lean = tmp_path / "whole.kw", tmp_path / "lean.kw"
    kw.save(make_pipeline(StandardScaler(), model).fit(rows, rows[:, 0]), whole)
    kw.save(make_pipeline(StandardScaler(), model).fit(rows, rows[:, 0]), lean, samples=False)
    assert whole.stat().st_size - lean.stat().st_size > rows.nbytes
    ours, theirs = kw.load(whole), kw.load(lean)
    np.testing.assert_array_equal(ours.predict(rows), theirs.predict(rows))
    np.testing.assert_array_equal(ours[-1].contributions(rows), theirs[-1].contributions(rows))
    assert len(ours[-1].effects_) and len(model.effects_)
    with pytest.raises(AttributeError, match=r"saved with samples=False, has none: use contributions"):
        _ = theirs[-1].effects_
    with pytest.raises(ValueError, match=r"saved with samples=False, has none: use contributions"):
        kw.effects(theirs, 0)
    assert "Effects" not in kw.report(theirs, rows, rows[:, 0], tmp_path / "r.html").read_text(encoding="utf-8")


def test_damaged_files_are_refused_or_unharmed(saved, tmp_path):
    model, data = saved
    rng, file = np.random.default_rng(0), tmp_path / "model.kw"
    expected = model.decision_function(X)
    outcomes = {"refused": 0, "unharmed": 0}
    cuts = [data[:length] for length in rng.integers(0, len(data), 30)]
    flips = []
    for place, bit in zip(rng.integers(0, len(data), 1000), rng.integers(0, 8, 1000), strict=True):
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        flips.append(bytes(flipped))
    for damaged in [*cuts, *flips]:
        file.write_bytes(damaged)
        try:
            again = kw.load(file)
        except ValueError as error:
            assert "cannot be opened as a model of kernelweave" in str(error)
            outcomes["refused"] += 1
        else:
            np.testing.assert_array_equal(again.decision_function(X), expected)
            outcomes["unharmed"] += 1
    assert outcomes["refused"] > 900


def test_newer_formats_ask_for_an_update(saved, tmp_path):
    header = json.loads(read(saved[1], "kernelweave.json"))
    file = tmp_path / "model.kw"
    file.write_bytes(rewritten(saved[1], kernelweave_json=json.dumps({**header, "format_version": 2})))
    with pytest.raises(ValueError, match=r"of format 2, .*: update kernelweave"):
        kw.load(file)
    extended = {**header, "something": "that a later version adds without a new format"}
    file.write_bytes(rewritten(saved[1], kernelweave_json=json.dumps(extended)))
    np.testing.assert_array_equal(kw.load(file).predict(X), saved[0].predict(X))


def test_files_of_the_first_format_stay_readable():
    file = Path(__file__).parent / "data" / "model-format-1.kw"
    assert kw.load(file).predict([[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]).tolist() == ["setosa", "virginica"]


def minimum(A, B):
    return np.minimum(A[:, None, :], B[None, :, :]).sum(axis=2)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (kw.MKLClassifier(K.Callable(minimum), psd="trust").fit(X, Y), ValueError, "holds no functions: compute that"),
        (GridSearchCV(kw.MKLClassifier(BANK), {"C": [1]}, cv=2).fit(X, Y), TypeError, "save its best_estimator_"),
        (LogisticRegression().fit(X, Y), TypeError, "save takes an estimator of kernelweave"),
        (make_pipeline(kw.Views, kw.MKLClassifier(BANK)), ValueError, "neither kernelweave's nor"),
    ],
    ids=["function", "search", "another library", "strange step"],
)
def test_what_cannot_be_kept_is_refused_with_a_way_out(model, error, message, tmp_path):
    with pytest.raises(error, match=message):
        kw.save(model, tmp_path / "model.kw")
    assert not list(tmp_path.iterdir())


def test_missing_skops_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "skops.io", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install kernelweave\[files\]"):
        kw.save(kw.MKLClassifier(BANK).fit(X, Y), tmp_path / "model.kw")
