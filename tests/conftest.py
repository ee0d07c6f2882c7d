"""Shared by all tests: deterministic draws and small problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("kernelweave", derandomize=True, deadline=None, database=None)
settings.load_profile("kernelweave")


@pytest.fixture
def rng():
    """A generator that starts the same in every test."""
    return np.random.default_rng(0)
