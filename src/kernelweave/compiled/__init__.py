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
    return _temporary_folder()


def _temporary_folder() -> str:
    """Return a folder of this user alone, since what is in it is run: the same one every time, or a new one."""
    try:
        folder = Path(tempfile.gettempdir()) / f"kernelweave-compiled-{_user()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
        own = about.st_uid == _user() and not about.st_mode & 0o022 and folder.is_dir() and not folder.is_symlink()
        return str(folder) if own and os.access(folder, os.W_OK) else tempfile.mkdtemp(prefix="kernelweave-compiled-")
    except OSError:  # nowhere to write at all, of which numba has its own sentence
        return ""


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


_config: Any = numba.config
if not _config.CACHE_DIR:
    _config.CACHE_DIR = cache_folder(Path(__file__).parent, Path.home())
