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


def main() -> None:
    """Write ``api.md`` beside this file."""
    own = [name for name in kernelweave.__all__ if name != "__version__" and name not in ROOMS]
    text = "# API\n\nEvery public name, with its parameters and an example.\n"
    text += block("Estimators, and what is done with them", "kernelweave", own)
    for room, title in ROOMS.items():
        module = kernelweave
        for part in room.split("."):
            module = getattr(module, part)
        text += block(title, f"kernelweave.{room}", sorted(set(module.__all__) - set(own)))
    Path(__file__).with_name("api.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
