"""The engine room: numba, plain arrays in, plain arrays out. Imported only when a fit needs it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numba


def cache_folder(own: Path, home: Path) -> str:
    """Return where numba is to keep what it compiles: where it would anyway, as "", or among temporary files.

    That is where it could write neither beside the source nor in the user's home, and would refuse to compile.
    """
    beside = own / "__pycache__" if (own / "__pycache__").exists() else own
    kept = [folder for folder in (home / ".cache" / "numba", home / ".cache", home) if folder.exists()]
    if os.access(beside, os.W_OK) or any(os.access(folder, os.W_OK) for folder in kept[:1]):
        return ""
    return str(Path(tempfile.gettempdir()) / "kernelweave-compiled")


_config: Any = numba.config
if not _config.CACHE_DIR:
    _config.CACHE_DIR = cache_folder(Path(__file__).parent, Path.home())
