"""The engine room: numba, plain arrays in, plain arrays out. Imported only when a fit needs it."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from .. import clock

PATIENCE = 1.0  # seconds of compiling that nobody need be told of


class Told(event.Listener):
    """Tells the log of functions that are compiled and not found on disk: each at level INFO, once aloud.

    Numba compiles in one thread at a time. The clock of the solvers does not run meanwhile.
    """

    def __init__(self) -> None:
        self.began, self.cpu, self.depth, self.seconds, self.aloud = 0.0, 0.0, 0, 0.0, False

    def on_start(self, event: Any) -> None:
        if not _ours(event):
            return
        if self.depth == 0:
            self.began, self.cpu = time.perf_counter(), time.thread_time()
            if self.seconds > PATIENCE and not self.aloud:
                self.aloud = True
                logging.getLogger("kernelweave").warning(
                    "Compiling code for this computer, which takes some seconds; it is kept, and found next time."
                )
        self.depth += 1

    def on_end(self, event: Any) -> None:
        if not _ours(event):
            return
        self.depth -= 1
        if self.depth == 0:
            taken = time.perf_counter() - self.began
            self.seconds += taken
            clock.set_apart(time.thread_time() - self.cpu)
            name = event.data["dispatcher"].py_func.__name__
            logging.getLogger("kernelweave").info("compiled %s: %.1f s, %.1f s in all", name, taken, self.seconds)


def _ours(event: Any) -> bool:
    return event.data["dispatcher"].py_func.__module__.startswith(__name__)


event.register("numba:compile", Told())


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
