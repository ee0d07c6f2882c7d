"""Model files that cannot harm: `save` and `load`, on skops, with our own list of what a file may hold.

A file is an archive, not compressed, of a description in JSON (``schema.json``, written by skops), arrays, and a header
(``kernelweave.json``). Nothing in it is code. Before skops is asked to build anything, every part of the description is
looked up in the list below and every array is measured; what is not known is refused, whatever skops itself would take.
Needs skops (``pip install kernelweave[files]``), which is loaded only when a file is written or read.
"""

from __future__ import annotations

import importlib
import io
import json
import math
import os
import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from scipy.sparse import load_npz

from . import grams, kernels, losses, penalties, solvers, weightings
from .estimators.base import MKLEstimator

__all__ = ["load", "read_model", "save"]

FORMAT = "kernelweave-model"
VERSION = 1  # of the format: raised when files change such that older versions cannot read them
HEADER, SCHEMA = "kernelweave.json", "schema.json"
MEMBER = re.compile(r"[0-9a-f-]{1,40}\.np[yz]")  # names of arrays
ROOM = 256 * 2**20  # bytes that sparse matrices, which are compressed, may always take
SWELL = 64  # and times the size of the file

ESTIMATORS = (
    "kernelweave.estimators.boosting.BoostedMKLClassifier",
    "kernelweave.estimators.chosen.MKLClassifierCV",
    "kernelweave.estimators.chosen.MKLRegressorCV",
    "kernelweave.estimators.chosen.MKLSurvivalCV",
    "kernelweave.estimators.classify.MKLClassifier",
    "kernelweave.estimators.nonconvex.NonconvexMKLClassifier",
    "kernelweave.estimators.outliers.MKLOutlierDetector",
    "kernelweave.estimators.regress.MKLRegressor",
    "kernelweave.estimators.survive.MKLSurvival",
)
PARTS = (  # what fitted models are made of, beside what the rooms export
    "kernelweave.assemble.absent.AbsentRows",
    "kernelweave.assemble.combined.Gate",
    "kernelweave.assemble.combined.GatedExpansion",
    "kernelweave.assemble.combined.GaussianExpansion",
    "kernelweave.assemble.complexity.EffectiveDimension",
    "kernelweave.assemble.complexity.TailSum",
    "kernelweave.assemble.effects.EffectGroups",
    "kernelweave.assemble.effects.EffectNames",
    "kernelweave.assemble.effects.EffectsExpansion",
    "kernelweave.assemble.expansion.Expansion",
    "kernelweave.assemble.factors.FactorAssembly",
    "kernelweave.assemble.factors.FactorExpansion",
    "kernelweave.assemble.products.FactorProductExpansion",
    "kernelweave.assemble.products.ProductExpansion",
    "kernelweave.assemble.views.Table",
    "kernelweave.assemble.views.Views",
    "kernelweave.estimators.boosting.Ballot",
    "kernelweave.estimators.calibrate.Scores",
    "kernelweave.estimators.stream.Stream",
    "kernelweave.grams.effects.ColumnSets",
    "kernelweave.grams.maps.Explicit",
    "kernelweave.grams.maps.Landmarks",
    "kernelweave.grams.maps.Maps",
    "kernelweave.grams.maps.Predictor",
    "kernelweave.grams.maps.Waves",
    "kernelweave.grams.shared.BasisPredictor",
    "kernelweave.grams.shared.Functions",
    "kernelweave.kernels.effects.Basis",
    "kernelweave.kernels.families.Precomputed",
    "kernelweave.kernels.missing.Others",
    "kernelweave.kernels.missing.Present",
    "kernelweave.problem.Certificate",
    "kernelweave.problem.Descent",
    "kernelweave.problem.History",
    "kernelweave.problem.Stationarity",
    "kernelweave.solvers.mirror.MirrorState",
    "kernelweave.solvers.mirror.OnFeatures",
    "kernelweave.solvers.mirror.OnKernels",
)
PREPARATIONS = (  # what may stand before an estimator in a pipeline, and what calibrates one
    "sklearn.calibration.CalibratedClassifierCV",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.decomposition._pca.PCA",
    "sklearn.impute._base.SimpleImputer",
    "sklearn.model_selection._split.GroupKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.MaxAbsScaler",
    "sklearn.preprocessing._data.MinMaxScaler",
    "sklearn.preprocessing._data.Normalizer",
    "sklearn.preprocessing._data.PowerTransformer",
    "sklearn.preprocessing._data.QuantileTransformer",
    "sklearn.preprocessing._data.RobustScaler",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.preprocessing._encoders.OneHotEncoder",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
    "sklearn.preprocessing._function_transformer.FunctionTransformer",  # of no function: those are refused
)
NUMBERS = ("bool", "float32", "float64", "int8", "int16", "int32", "int64", "str_", "uint8", "uint32", "uint64")
SCALARS = tuple(f"numpy.{name}" for name in NUMBERS)
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")  # skops calls what a file names here
TYPES = ("builtins.bool", "builtins.float", "builtins.int", "builtins.str", *SCALARS)
PLAIN: dict[str, tuple[str, ...]] = {  # kinds of entries that are no objects, and what each may stand for
    "DictNode": ("builtins.dict",),
    "JsonNode": ("builtins.str",),
    "ListNode": ("builtins.list",),
    "MaskedArrayNode": ("numpy.ma.MaskedArray",),
    "NdArrayNode": ("numpy.ndarray", *SCALARS),
    "RandomGeneratorNode": ("numpy.random._generator.Generator",),
    "RandomStateNode": ("numpy.random.mtrand.RandomState",),
    "SetNode": ("builtins.set",),
    "SliceNode": ("builtins.slice",),
    "SparseMatrixNode": ("scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"),
    "TupleNode": ("builtins.tuple",),
    "TypeNode": TYPES,
}


def save(
    model: Any, path: str | os.PathLike[str], *, notes: dict[str, Any] | None = None, samples: bool = True
) -> None:
    """Write a model to a file that is safe to open.

    The file holds no code: a stranger can open it with `load` without running anything of yours, and you theirs.
    Models with functions of your own, or with parts that are neither kernelweave's nor a usual preparation of
    scikit-learn, are refused, and so are tensors.

    Parameters
    ----------
    model : estimator of kernelweave, or a Pipeline that ends in one
        The model to keep.
    path : str or path
        The file; one that is there already is replaced.
    notes : dict, optional
        Anything that JSON can hold, kept beside the model.
    samples : bool, default=True
        Whether the file keeps up to 1000 training rows, on which ``effects_`` and the curves of `kernelweave.effects`
        are measured. Without them predictions and contributions are the same, and these are refused. The rows that
        predictions need are always kept: support vectors, or landmarks of features.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier().fit(X, y)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "iris.kw"
    >>> kw.save(clf, file)
    >>> bool((kw.load(file).predict(X) == clf.predict(X)).all())
    True
    """
    import kernelweave

    estimator = _estimator(model)
    if estimator is None:
        hint = ": save its best_estimator_" if hasattr(model, "best_estimator_") else ""
        raise TypeError(f"save takes an estimator of kernelweave or a Pipeline of one, not {_kind(model)}{hint}.")
    skops = _skops()
    try:
        data = skops.dumps(model if samples else _without_samples(model), compression=ZIP_STORED)
    except Exception as error:
        raise ValueError(f"the model holds something that cannot be written to a safe file: {error}") from error
    header = {
        "format": FORMAT,
        "format_version": VERSION,
        "kernelweave": kernelweave.__version__,
        "model": _kind(estimator),
        "notes": {} if notes is None else notes,
    }
    buffer = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as made, ZipFile(buffer, "w", compression=ZIP_STORED) as archive:
        schema = json.loads(made.read(SCHEMA))
        strange = _strangers(schema)
        if strange:
            raise ValueError(_cannot_keep(strange[0]))
        for name in made.namelist():
            archive.writestr(name, json.dumps(schema, separators=(",", ":")) if name == SCHEMA else made.read(name))
        archive.writestr(HEADER, json.dumps(header))
    with ZipFile(buffer) as archive:
        _check_arrays(archive, len(buffer.getbuffer()))
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(buffer.getbuffer())
        os.replace(part, target)
    except OSError as error:  # a full disk, say
        part.unlink(missing_ok=True)
        words = f"the model could not be written ({error.strerror}), and what was there is as it was: choose a place"
        raise type(error)(error.errno, f"{words} with room", str(target)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Open a model that `save` wrote.

    Nothing in the file is run. A file that holds anything but what `save` writes (a pickle, types that are not on the
    list of this module, arrays larger than the file) is refused with a ValueError, and so is a damaged one.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    estimator or Pipeline
        The model that was saved.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.load("no-such-file.kw")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no file no-such-file.kw.
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Open a model that `save` wrote, and return it with the header of its file: versions, and the notes under "notes".

    Examples
    --------
    >>> import kernelweave as kw
    >>> from kernelweave.modelfile import read_model
    >>> read_model("no-such-file.kw")
    Traceback (most recent call last):
        ...
    FileNotFoundError: there is no file no-such-file.kw.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}.")
    data, skops = file.read_bytes(), _skops()
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            _check_members(archive, len(data))
            header = _read_header(archive)
            _check_schema(json.loads(archive.read(SCHEMA)))
            _check_arrays(archive, len(data))
        model = skops.loads(data, trusted=_trusted())
        if _estimator(model) is None:
            raise _Refused(f"it holds a {_kind(model)} and not a model")
    except _Refused as refusal:
        raise ValueError(f"{file} cannot be opened as a model of kernelweave: {refusal}.") from None
    except Exception as error:  # damaged bytes can raise anything
        raise ValueError(
            f"{file} cannot be opened as a model of kernelweave: it is none, or it is damaged "
            f"({type(error).__name__}); fit again, or ask for the file again."
        ) from error
    return model, header


class _Refused(Exception):
    """Why a file is not opened."""


def _skops() -> Any:
    """Load skops, or say how to get it."""
    try:
        return importlib.import_module("skops.io")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "model files need skops; install it with: pip install kernelweave[files]", name=error.name
        ) from error


def _estimator(model: Any) -> MKLEstimator | None:
    """Return the estimator that a model is, or that a pipeline ends in."""
    if hasattr(model, "named_steps"):
        model = model.steps[-1][1]
    return model if isinstance(model, MKLEstimator) else None


def _without_samples(model: Any) -> Any:
    """Return the same model without the training rows on which effects are measured."""
    lean = copy(model)
    if hasattr(model, "named_steps"):
        lean.steps = [*model.steps[:-1], (model.steps[-1][0], _without_samples(model.steps[-1][1]))]
    elif hasattr(model, "_sample"):
        lean._sample = None
    return lean


def _kind(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


# -- what a file may hold -------------------------------------------------------------------------------


def _exported() -> Iterator[str]:
    """Yield the classes that the rooms export: kernels, losses, penalties, weightings, approximations, solvers."""
    for room in (grams, kernels, losses, penalties, solvers, solvers.literature, weightings):
        for name in room.__all__:
            if isinstance(getattr(room, name), type):
                yield f"{getattr(room, name).__module__}.{name}"


def _objects() -> set[str]:
    """Return the names of all classes whose instances a file may hold."""
    return {*ESTIMATORS, *PARTS, *PREPARATIONS, *_exported()}


def _trusted() -> list[str]:
    """Return the same for skops, which checks once more; numbers and containers it knows."""
    return sorted({*_objects(), *(name for names in PLAIN.values() for name in names)})


def _strangers(schema: Any) -> list[str]:
    """Return what a description holds that is not on the list, as "kind of entry, name of type"."""
    known, found, open_ends = _objects(), [], [schema]
    while open_ends:
        entry = open_ends.pop()
        open_ends += entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
        if not isinstance(entry, dict) or not {"__class__", "__module__", "__loader__"} & set(entry):
            continue
        kind, name = entry.get("__loader__"), f"{entry.get('__module__')}.{entry.get('__class__')}"
        if name not in (known if kind == "ObjectNode" else PLAIN.get(str(kind), ())):
            found.append(f"{str(kind).removesuffix('Node').lower()} {name}")
        elif kind == "RandomGeneratorNode" and (generator := _bit_generator(entry)) not in BIT_GENERATORS:
            found.append(f"random generator of {generator}")
    return sorted(set(found), key=lambda name: (not name.startswith("function"), name))


def _bit_generator(entry: dict[str, Any]) -> Any:
    """Return what a file names as the source of random numbers."""
    try:
        return json.loads(entry["content"]["bit_generator"]["content"]["bit_generator"]["content"])
    except (KeyError, TypeError, ValueError):
        return "nothing known"


def _cannot_keep(strange: str) -> str:
    if strange.startswith(("function", "method", "partial")):
        return (
            f"the model holds the {strange}, and a file that is safe to open holds no functions: compute that kernel "
            "yourself and use kernels='precomputed', or keep the model with joblib, for your own use only."
        )
    return (
        f"the model holds the {strange}, which is neither kernelweave's nor one of the preparations of scikit-learn "
        "that files may hold: leave it out of what is saved, or keep the model with joblib, for your own use only."
    )


def _check_schema(schema: Any) -> None:
    strange = _strangers(schema)
    if strange:
        few = ", ".join(strange[:3]) + (f" and {len(strange) - 3} more" if len(strange) > 3 else "")
        raise _Refused(f"it holds what no model of kernelweave holds: {few}")


def _check_members(archive: ZipFile, size: int) -> None:
    """Refuse members that are compressed, that overlap, or that no model has."""
    members = archive.infolist()
    names = [member.filename for member in members]
    if not {HEADER, SCHEMA} <= set(names):
        raise _Refused("it is another kind of archive")
    if len(set(names)) < len(names) or any(not MEMBER.fullmatch(name) for name in {*names} - {HEADER, SCHEMA}):
        raise _Refused("it has members that no model has")
    if any(m.compress_type != ZIP_STORED or m.file_size != m.compress_size or m.flag_bits & 1 for m in members):
        raise _Refused("it has members that are compressed or encrypted, which no model has")
    if sum(member.file_size for member in members) > size:
        raise _Refused("its members are larger than the file")


def _read_header(archive: ZipFile) -> dict[str, Any]:
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT or not isinstance(header.get("notes"), dict):
        raise _Refused("its header is not that of a model")
    version = header.get("format_version")
    if type(version) is not int or version < 1:
        raise _Refused("its header has no version")
    if version > VERSION:
        raise _Refused(
            f"it is of format {version}, written by kernelweave {header.get('kernelweave')}, and this version reads "
            f"up to {VERSION}: update kernelweave"
        )
    return header


def _check_arrays(archive: ZipFile, size: int) -> None:
    """Refuse arrays that say they are larger than they are, that hold objects, and sparse matrices that swell."""
    swollen = 0
    for member in archive.infolist():
        if member.filename.endswith(".npy"):
            _check_array(archive.read(member))
        elif member.filename.endswith(".npz"):
            matrix = io.BytesIO(archive.read(member))
            with ZipFile(matrix) as inner:
                swollen += sum(part.file_size for part in inner.infolist())
                if swollen > max(ROOM, SWELL * size):
                    raise _Refused(f"its sparse matrices would take {swollen} bytes, {swollen // size} times the file")
                for part in inner.infolist():
                    with inner.open(part) as stream:  # read no further than what it says: it may hold much more
                        _check_array(stream.read(part.file_size))
            matrix.seek(0)
            load_npz(matrix).check_format(full_check=True)  # positions beyond a matrix would be read from anywhere


def _check_array(data: bytes) -> None:
    """Refuse an array whose header does not fit the bytes that follow it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise _Refused(f"it has an array of the format {version}")
    shape, _, dtype = read[version](stream)
    if dtype.hasobject:
        raise _Refused("it has an array of objects")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise _Refused("it has an array that is not as large as it says")
