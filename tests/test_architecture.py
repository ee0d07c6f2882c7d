"""The house keeps its shape: who imports whom, what an import costs, and what the public names promise."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter import cli as import_linter

import kernelweave
from kernelweave import losses, penalties
from kernelweave.penalties import prox

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OPTIONAL = ["numba", "torch", "dask", "matplotlib", "pandas", "pyarrow", "clarabel", "cvxpy", "kernelweave.compiled"]
GENERAL = [file for file in SOURCES if {"solvers", "estimators"} & set(file.parts)]
CONCRETE = {  # losses and penalties, by name
    name
    for room, base in ((losses, losses.Loss), (penalties, penalties.MixingPenalty), (prox, penalties.MixingPenalty))
    for name, thing in vars(room).items()
    if isinstance(thing, type) and issubclass(thing, base) and thing is not base
}
NAMED = {  # files that name one all the same, and why
    "estimators/choosing.py": {
        "Fixed": "a kernel alone is fixed weights, and a sum of fixed weights is one kernel",
        "L1": "a candidate that is tried by default",
        "Lp": "a candidate that is tried by default",
    },
    "solvers/ascent.py": {"Fixed": "where the first proximal stage begins is an SVM at even weights"},
    "solvers/newton_cg.py": {"Fixed": "where the first proximal stage begins is a model at even weights"},
    "solvers/proximal.py": {"Fixed": "where the first proximal stage begins is an SVM at even weights"},
    "solvers/sqp.py": {"Fixed": "where the first proximal stage begins is an SVM at even weights"},
    "solvers/svm.py": {"Fixed": "an SVM at given weights is the same problem with this penalty"},
    "solvers/literature/skm.py": {"MoreauYosida": "the published method smooths l1 by this penalty"},
    "solvers/literature/smo_mkl.py": {"SquaredLp": "the published method is defined for this penalty only"},
    "solvers/literature/spg.py": {"Lp": "the published method projects on the ball of this norm"},
}
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]))


def run(code: str) -> str:
    """Run code in a new interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_rooms_import_downwards_only(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    status = import_linter.lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert status == 0, capsys.readouterr().out


def test_import_loads_nothing_optional():
    loaded = run(f"import sys, kernelweave; print([name for name in {OPTIONAL} if name in sys.modules])")
    assert loaded == "[]"


def test_command_line_starts_without_optional_packages():
    code = f"import sys, kernelweave.cli; print([name for name in {OPTIONAL} if name in sys.modules])"
    assert run(code) == "[]"


@pytest.mark.parametrize("name", kernelweave.__all__)
def test_public_names_exist(name):
    assert isinstance(name, str)
    assert getattr(kernelweave, name) is not None


def test_public_names_are_listed_once_and_shown_by_dir():
    assert len(set(kernelweave.__all__)) == len(kernelweave.__all__)
    assert set(kernelweave.__all__) <= set(dir(kernelweave))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kernelweave.no_such_name


def test_version_is_in_one_place():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    assert settings["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "kernelweave.__version__"}
    assert f"version: {kernelweave.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {kernelweave.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_public_names_have_examples():
    rooms = [kernelweave, *(getattr(kernelweave, name) for name in ("grams", "kernels", "losses", "penalties", "plot"))]
    rooms += [kernelweave.solvers, kernelweave.solvers.literature, kernelweave.weightings]
    things = {f"{room.__name__}.{name}": getattr(room, name) for room in rooms for name in room.__all__}
    plain = {name for name, thing in things.items() if callable(thing) and not inspect.isabstract(thing)}
    lacking = {name for name in plain if ">>>" not in (inspect.getdoc(things[name]) or "")}
    bases = {"AdviceWarning", "Approximation", "DualTerms", "Loss", "MixingPenalty", "Solver", "Weighting"}
    assert {name.rpartition(".")[2] for name in lacking} <= bases


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(ROOT / "src").as_posix())
def test_source_is_finished(file):
    text = file.read_text(encoding="utf-8")
    assert not UNFINISHED.search(text)
    assert not text.strip() or "from __future__ import annotations" in text or file.name == "__init__.py"


def names_in(tree: ast.AST) -> set[str]:
    """Return every name that a file imports, reads, or reads as an attribute."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return imported | read | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def place(file: Path) -> str:
    return file.relative_to(ROOT / "src" / "kernelweave").as_posix()


def test_concrete_losses_and_penalties_are_known():
    assert {"Hinge", "Cox", "Softmax", "L1", "Fixed", "SpectralNorm", "EntropicProx"} <= CONCRETE
    assert not {"Loss", "BoundLoss", "DualTerms", "MixingPenalty"} & CONCRETE


@pytest.mark.parametrize("file", GENERAL, ids=place)
def test_solvers_and_estimators_name_no_loss_and_no_penalty(file):
    """What they need of one is declared by its base class, so that a new one needs no change here."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert names_in(tree) & CONCRETE == set(NAMED.get(place(file), {}))


@pytest.mark.parametrize("file", GENERAL, ids=place)
def test_solvers_and_estimators_do_not_probe(file):
    """What a Gram, a loss or a penalty can do is declared, not found out by asking for attributes."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr"):
            asked = {name.lower() for name in names_in(node.args[0])}
            assert not asked & {"gram", "loss", "penalty", "bound", "terms"}, ast.unparse(node)
