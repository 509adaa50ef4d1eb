"""The folder of this process for what must not outlive it: logs, files of Spark, rows on their way to workers.

It goes when the process ends. Where that was killed it stays, with a lock that nobody holds any more, and the next
process that makes such a folder removes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: folders of killed processes stay
    fcntl = None  # type: ignore[assignment]

_PREFIX = "panes-"
_LOCK = "in_use"


def scratch() -> Path:
    """The folder, made when it is first asked for."""
    return _folder(os.getpid())


@lru_cache(maxsize=1)
def _folder(process: int) -> Path:
    remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # locked before it has its name, so that nobody ever finds it free
    made = folder / "lock"
    lock = made.open("w")
    _is_free(lock)
    made.rename(folder / _LOCK)
    atexit.register(_remove, folder, lock, process)
    return folder


def remove_abandoned(place: Path) -> None:
    """Remove the folders of processes that were killed."""
    for path in place.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with path.open("r+") as lock:
                if _is_free(lock):
                    shutil.rmtree(path.parent, ignore_errors=True)
        except OSError:
            continue  # someone else's, or gone by now


def _is_free(lock: IO[str]) -> bool:
    """Whether nobody held the lock; it is held from here on."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(folder: Path, lock: IO[str], process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
    lock.close()
