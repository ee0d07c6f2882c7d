"""Writes down every sentence that the package refuses or warns with, from its source, so that none is forgotten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "kernelweave"
ROOMS = {  # modules by the first part of their path, in the order of the page
    "Samples, targets and parameters": ("arrays", "assemble", "estimators"),
    "Kernels": ("kernels",),
    "Penalties, losses, and weights learned first": ("losses", "penalties", "weightings"),
    "Approximations, tensors and Dask": ("chunks", "grams"),
    "Solvers, and how fits end": ("certify", "problem", "solvers"),
    "Paths, recipes, stability, effects": ("effects", "path", "recipes", "stability", "tables"),
    "Model files, pictures and reports": ("modelfile", "plot", "report"),
    "The command line": ("cli",),
}
SPOKEN_ONLY = ("cli", "recipes", "report", "stability", "tables")  # where other sentences are no messages


def sentences() -> dict[str, list[str]]:
    """Return the sentences of each room of the page, with ... for what is filled in."""
    found: dict[str, list[str]] = {title: [] for title in ROOMS}
    homes = {part: title for title, parts in ROOMS.items() for part in parts}
    for file in sorted(SOURCE.rglob("*.py")):
        part = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if part in homes:
            found[homes[part]] += _of_module(ast.parse(file.read_text(encoding="utf-8")), part in SPOKEN_ONLY)
    return {title: sorted(set(texts)) for title, texts in found.items()}


def _of_module(tree: ast.Module, spoken_only: bool) -> Iterator[str]:
    """Yield what is raised or warned with, and other sentences, which are handed on until they are."""
    raised = {id(part) for node in ast.walk(tree) if _speaks(node) for part in ast.walk(node)}
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    silent |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = _text(node)
        whole = not spoken_only and re.search(r"[^.]\.$|\.{4}$", text)
        if id(node) not in silent and len(text.split()) >= 4 and (whole or id(node) in raised):
            yield text


def _speaks(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) or warns(node)


def warns(node: ast.AST) -> bool:
    """Whether a piece of code is a call of `warnings.warn`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn"


def _text(node: ast.AST) -> str:
    """Return what a string says, with ... for what is filled in; nothing for all else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "..." for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def written() -> str:
    """Return the part of the page that lists them."""
    text = ""
    for title, texts in sentences().items():
        plain = [re.sub(r"([][*_`<>|~$^#{}])", r"\\\1", one) for one in texts]
        text += f"\n### {title}\n\n" + "".join(f"- {one}\n" for one in plain)
    return text


if __name__ == "__main__":
    (HERE / "_build").mkdir(exist_ok=True)
    (HERE / "_build" / "messages.md").write_text(written(), encoding="utf-8")
