"""What the documents say runs."""

import ast
import importlib.util
import inspect
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


def loaded(name):
    """Return a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_names():
    """Yield every module and name that the pages of the API are made of."""
    text = loaded("make_api").written()
    for block in text.split(".. currentmodule:: ")[1:]:
        module, _, rest = block.partition("\n")
        for name in re.findall(r"(?m)^   (\w+)$", rest):
            yield module, name


def test_every_public_name_has_a_page_with_an_example():
    import kernelweave as kw

    found = list(public_names())
    assert {("kernelweave.plot", name) for name in kw.plot.__all__} <= set(found)
    assert {name for _, name in found} >= set(kw.__all__) - {"__version__", *kw._ROOMS}
    bare = []
    for module, name in found:
        thing = getattr(importlib.import_module(module), name)
        if callable(thing) and ">>>" not in (inspect.getdoc(thing) or "") and not issubclass_of_warning(thing):
            bare.append(f"{module}.{name}")
    assert bare == []


def issubclass_of_warning(thing):
    return isinstance(thing, type) and issubclass(thing, Warning)


def test_dead_links_are_found(tmp_path):
    check_links = loaded("check_links")
    (tmp_path / "a.html").write_text('<p id="here"><a href="b.html#there">x</a><a href="#here">y</a><img src="c.png">')
    (tmp_path / "b.html").write_text('<a href="a.html#here">x</a><a href="a.html#gone">y</a><a href="https://d.e">z</a>')
    assert sorted(check_links.dead(tmp_path)) == ["a.html: b.html#there", "a.html: c.png", "b.html: a.html#gone"]


def test_troubleshooting_explains_sentences_that_exist_and_every_warning():
    messages = loaded("make_messages")
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    tables = ["; ".join(re.findall(r"(?m)^\| ([^|]+) \|", part)[1:]) for part in page.split("\n## ")[1:3]]
    warned, refused = ([re.split(r"[\s,]*\.{3}[\s,]*", one) for one in table.split("; ")] for table in tables)
    spoken = [one for room in messages.sentences().values() for one in room]
    assert len(spoken) > 300
    for pieces in warned + refused:
        assert any(all(piece in one for piece in pieces) for one in spoken), pieces
    trees = {path.stem: ast.parse(path.read_text()) for path in messages.SOURCE.rglob("*.py")}
    calls = [node for tree in trees.values() for node in ast.walk(tree) if messages.warns(node)]
    texts = [messages._text(call.args[0]) for call in calls]
    texts = [text for text in texts if len(text.split()) > 3] + list(messages._of_module(trees["advice"], False))
    assert len(texts) > 10
    assert [text for text in texts if not any(all(piece in text for piece in pieces) for pieces in warned)] == []
