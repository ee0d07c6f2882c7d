"""Shared by all tests: deterministic draws and small problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("kernelweave", derandomize=True, deadline=None, database=None)
settings.load_profile("kernelweave")


@pytest.fixture
def rng():
    """A generator that starts the same in every test."""
    return np.random.default_rng(0)


@pytest.fixture
def set_sqp(monkeypatch):
    """A function that gives constants of the default solver other values, for one test."""
    from kernelweave.solvers import sqp, sqp_records, sqp_rounds, sqp_steps

    def change(**values):
        settings = replace(sqp_records.SETTINGS, **values)
        for module in (sqp, sqp_records, sqp_rounds, sqp_steps):
            monkeypatch.setattr(module, "SETTINGS", settings)

    return change


@pytest.fixture(params=["numpy", "array_api_strict", "torch"])
def xp(request):
    """The namespace of an array library; a test that takes it runs once in each that is installed."""
    if request.param == "torch":
        pytest.importorskip("torch")
        return pytest.importorskip("array_api_compat.torch")
    return pytest.importorskip(request.param)
