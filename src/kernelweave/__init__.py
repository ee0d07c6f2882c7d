"""Multiple kernel learning with scikit-learn's face and a duality gap for every answer."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "AdviceWarning": "estimators",
    "BoostedMKLClassifier": "estimators",
    "DenseGram": "grams",
    "EffectiveDimension": "assemble",
    "ExplicitFeatures": "grams",
    "LowRankGram": "grams",
    "MKLClassifier": "estimators",
    "MKLClassifierCV": "estimators",
    "MKLOutlierDetector": "estimators",
    "MKLRegressor": "estimators",
    "MKLRegressorCV": "estimators",
    "MKLSurvival": "estimators",
    "MKLSurvivalCV": "estimators",
    "NonconvexMKLClassifier": "estimators",
    "Nystroem": "grams",
    "PivotedCholesky": "grams",
    "Problem": "problem",
    "RandomFeatures": "grams",
    "SharedBasis": "grams",
    "TailSum": "assemble",
    "Views": "assemble",
    "certify": "certify",
    "load": "modelfile",
    "effects": "effects",
    "path": "path",
    "recipe": "recipes",
    "recipes": "recipes",
    "report": "report",
    "save": "modelfile",
    "solve": "solvers",
    "stability": "stability",
}
_ROOMS = ("grams", "kernels", "losses", "penalties", "plot", "solvers", "weightings")

__all__ = sorted([*_HOMES, *_ROOMS, "__version__"])


class _House(ModuleType):
    """This package: a public function keeps its name when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _House


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
