"""What the documents say runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = [
    (path.name, block)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for block in re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)
]


@pytest.mark.parametrize(("name", "block"), BLOCKS, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BLOCKS)])
def test_python_blocks_run(name, block, capsys):
    exec(compile(block, name, "exec"), {})


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], ids=lambda path: path.name)
def test_nothing_is_left_to_fill_in(path):
    assert not re.search(r"@@|TODO|FIXME|\bTBD\b", path.read_text())


def test_the_page_of_the_problem_names_every_solver_penalty_and_loss():
    import kernelweave as kw
    from kernelweave.solvers import _NAMES

    text = (ROOT / "docs" / "problem.md").read_text()
    penalties = set(kw.penalties.__all__) - {"MixingPenalty", "make_penalty"}
    losses = set(kw.losses.__all__) - {"Loss", "BoundLoss", "DualTerms", "make_loss"}
    weightings = set(kw.weightings.__all__) - {"Weighting", "make_mixing"}
    assert [name for name in {*_NAMES, *penalties, *losses, *weightings} if f"`{name}`" not in text] == []


def test_readme_is_short_and_wishes_are_shorter():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
    wishes = (ROOT / "docs" / "wishes.md").read_text()
    assert len(re.findall(r"(?m)^## \d+\. ", wishes)) == 20
    assert all(len(block.splitlines()) <= 15 for block in re.findall(r"```\w*\n(.*?)```", wishes, flags=re.DOTALL))


EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))[::3]  # the others run in ``make docs`` only


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_of_the_gallery_draw_something(path, monkeypatch, capsys):
    import matplotlib

    matplotlib.use("agg", force=True)
    from matplotlib import pyplot

    shown = []
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(pyplot.gcf()))
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
        assert shown
        for figure in shown:
            assert any(axes.has_data() for axes in figure.axes)
            figure.canvas.draw()
    finally:
        pyplot.close("all")
