"""Writes the list of public names from what the package itself exports, so that none is forgotten."""

from __future__ import annotations

from pathlib import Path

import kernelweave

ROOMS = {
    "kernels": "Kernels",
    "penalties": "Penalties",
    "weightings": "Weights learned first",
    "losses": "Losses",
    "solvers": "Solvers",
    "solvers.literature": "Published solvers",
    "grams": "Kernels on samples",
    "plot": "Pictures",
}


def listed(names: list[str]) -> str:
    return "\n".join(f"   {name}" for name in names)


def block(title: str, module: str, names: list[str]) -> str:
    return f"""
## {title}

```{{eval-rst}}
.. currentmodule:: {module}

.. autosummary::
   :toctree: generated

{listed(names)}
```
"""


def written() -> str:
    """Return the page that lists them."""
    own = [name for name in kernelweave.__all__ if name != "__version__" and name not in ROOMS]
    text = "# API\n\nEvery public name, with its parameters and an example.\n"
    text += block("Estimators, and what is done with them", "kernelweave", own)
    for room, title in ROOMS.items():
        module = kernelweave
        for part in room.split("."):
            module = getattr(module, part)
        rest = [name for name in module.__all__ if getattr(module, name) is not getattr(kernelweave, name, None)]
        text += block(title, f"kernelweave.{room}", sorted(rest))
    return text


if __name__ == "__main__":
    Path(__file__).with_name("api.md").write_text(written(), encoding="utf-8")
