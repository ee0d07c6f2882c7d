"""The scripts that measure papers again: they run unattended, write what they promise and go on where they stopped."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
RESULTS = [path for path in sorted((ROOT / "docs" / "results").glob("*.json")) if not path.stem.endswith("_fast")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data folder with one small set in it."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    np.savez(folder / "svmguide1.npz", X=X, y=np.sign(X[:, 0] + 0.3 * rng.normal(size=300)))
    return folder


def run(folder, results):
    """Run part of one script, small, and return what it says while it works."""
    words = ["--fast", "--cap", "5", "--sets", "svmguide1", "--figures", "1,2"]
    paths = {"KERNELWEAVE_DATA": str(folder), "KERNELWEAVE_RESULTS": str(results), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "benchmarks" / "papers" / "lowrank.py"), *words]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_paper_is_measured_written_and_resumed(folder, tmp_path):
    said = run(folder, tmp_path)
    made = json.loads((tmp_path / "lowrank_paper_fast.json").read_text())
    assert len(made["cells"]) == said.count(" ... ") == 5  # two ranks, two bases and the exact fit
    assert {"command", "kernelweave", "numpy", "processor", "threads"} <= set(made["made_with"])
    with open(tmp_path / "lowrank_paper_fast.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["cell"] for row in rows] == list(made["cells"])
    assert "Seeds are fixed in the script" in (tmp_path / "lowrank_paper_fast.md").read_text()
    assert (tmp_path / "lowrank_paper_fast_figure1.png").stat().st_size > 1000
    assert " ... " not in run(folder, tmp_path)


def test_what_was_measured_earlier_keeps_its_maker(folder, tmp_path):
    run(folder, tmp_path)
    path = tmp_path / "lowrank_paper_fast.json"
    made = json.loads(path.read_text())
    made["makers"][0]["processor"] = "another one"
    made["cells"].pop(next(iter(made["cells"])))
    path.write_text(json.dumps(made))
    assert run(folder, tmp_path).count(" ... ") == 1
    report = (tmp_path / "lowrank_paper_fast.md").read_text()
    assert "4 cells by `python" in report and "processor another one" in report and "1 cells by `python" in report


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks" / "papers").glob("*.py")), ids=lambda path: path.stem)
def test_every_script_of_a_paper_takes_the_options_of_make_papers(script):
    paths = {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(script), "--help"]
    done = subprocess.run(command, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(option in done.stdout for option in ("--fast", "--cap", "--again"))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_in_the_repository_say_what_made_them(path):
    made = json.loads(path.read_text())
    makers = made.get("makers", [made["made_with"]])
    assert all({"command", "python", "numpy", "processor", "threads"} <= set(maker) for maker in makers)
    assert f"benchmarks/papers/{path.stem.removesuffix('_paper')}.py" in makers[0]["command"]
    report = path.with_suffix(".md").read_text()
    assert all(maker["command"] in report for maker in makers)
    assert path.with_suffix(".csv").exists()
    assert any(path.parent.glob(f"{path.stem}*.png"))
