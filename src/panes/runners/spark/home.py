"""The folder that Spark is started from: its programs and jars, without its copy of PySpark in a zip file.

Spark puts `python/lib/pyspark.zip` of its folder before all else on the path of its Python processes. A zip holds no
compiled modules, so each process compiles PySpark again, for half a second or more; and several begin with every
stream. From a folder without that file they import PySpark as it is installed, which is compiled already.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from panes.runners.spark.java import cache_folder

_HOME = "SPARK_HOME"
#: What Java needs of the folder.
_PARTS = ("bin", "jars")


def installed_home(*pythons: str | None, folder: Path | None = None) -> Path:
    """The folder to start Spark from: of links if all `pythons` find PySpark by themselves, else Spark's own."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    if os.environ.get(_HOME) or {*pythons} != {sys.executable} or not _is_installed(home):
        return home
    name = f"home-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"
    try:
        return _linked(home, (folder or cache_folder()) / name)
    except OSError:
        return home  # no place for links, or a system without: workers start slower, and that is all


@contextmanager
def spark_home(home: Path) -> Iterator[None]:
    """Java processes that begin meanwhile are started from `home`."""
    before = os.environ.get(_HOME)
    os.environ[_HOME] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_HOME]
        else:
            os.environ[_HOME] = before


def _is_installed(home: Path) -> bool:
    """Whether Spark's folder is that of the package, among those that Python looks in by itself."""
    return str(home.parent) in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}


def _linked(home: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for part in _PARTS:
        link = folder / part
        if not link.exists():
            _replace(link, home / part)
    return folder


def _replace(link: Path, target: Path) -> None:
    """In one step: another process may be doing the same."""
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(target, target_is_directory=True)
    os.replace(fresh, link)
