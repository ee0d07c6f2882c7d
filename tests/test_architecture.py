"""The house keeps its shape: who imports whom, what an import costs, and what the public names promise."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from importlinter import cli as import_linter

import kernelweave

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OPTIONAL = ["numba", "torch", "dask", "matplotlib", "pandas", "pyarrow", "clarabel", "cvxpy", "kernelweave.compiled"]
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


def test_version_is_the_projects():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert kernelweave.__version__ == project["version"]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.relative_to(ROOT / "src").as_posix())
def test_source_is_finished(file):
    text = file.read_text(encoding="utf-8")
    assert not UNFINISHED.search(text)
    assert not text.strip() or "from __future__ import annotations" in text or file.name == "__init__.py"
