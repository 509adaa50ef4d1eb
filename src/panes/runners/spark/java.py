"""What Spark is started with: which Java, an archive of loaded classes that halves a start, and from which folder.

A JVM that is told to writes the classes it has loaded to a file when it ends; later ones map that file into
memory instead of reading and checking ten thousand classes again. The file is written once per user, Java and
PySpark. Nothing here can make a start fail: a file that does not fit is ignored by the JVM.

Spark puts `python/lib/pyspark.zip` of its folder before all else on the path of its Python processes. A zip holds no
compiled modules, so each process compiles PySpark again, for half a second or more; and several begin with every
stream. From a folder of links without that file they import PySpark as it is installed, which is compiled already.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from panes.errors import QueryError

OLDEST = 17
#: Who can install it, and the command.
_INSTALLERS = {
    "apt-get": "sudo apt-get install -y openjdk-17-jre-headless",
    "dnf": "sudo dnf install -y java-17-openjdk-headless",
    "apk": "sudo apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}
#: The first bytes of a finished archive of classes. The JVM writes them last.
_FINISHED = (0xF00BABA8).to_bytes(4, "little")
#: After this many seconds a session that was to write an archive is taken for dead.
_GIVEN_UP = 3600.0
_HOME = "SPARK_HOME"
#: What Java needs of the folder.
_PARTS = ("bin", "jars")


@dataclass(frozen=True)
class Java:
    """A Java on this machine."""

    program: Path
    version: str

    @property
    def major(self) -> int:
        first, _, rest = self.version.partition(".")
        # before 9, versions were called 1.8 and the like
        number = rest.partition(".")[0] if first == "1" else first
        return int(re.match(r"\d*", number)[0] or 0)  # type: ignore[index]


def find_java() -> Java:
    """The Java that Spark will use; an error that says what to do if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else Path(shutil.which("java") or "")
    if not found.is_file():
        where = f"JAVA_HOME is {home!r}, which has no bin/java" if home else "no `java` was found"
        raise QueryError(f"Spark needs Java {OLDEST} or newer, and {where}. {_help(bool(home))}")
    java = Java(found, _version(found))
    if java.major < OLDEST:
        raise QueryError(f"Spark needs Java {OLDEST} or newer; {found} is Java {java.version}. {_help(bool(home))}")
    return java


def _help(home_set: bool) -> str:
    command = next((c for name, c in _INSTALLERS.items() if shutil.which(name)), None)
    install = f"Install it with: {command}" if command else "Install a JDK from https://adoptium.net and set JAVA_HOME"
    return f"{install}; then unset JAVA_HOME, or set it to the new one" if home_set else install


def _version(program: Path) -> str:
    """From the file that every JDK carries, else by asking, which takes longer."""
    release = program.resolve().parents[1] / "release"
    if release.is_file():
        said = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if said:
            return said[1]
    try:
        asked = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise QueryError(f"{program} can't be run: {error}. {_help(bool(os.environ.get('JAVA_HOME')))}") from error
    said = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if said is None:
        raise QueryError(f"{program} -version does not say which Java it is: {(asked.stderr + asked.stdout)[:200]!r}")
    return said[1]


def class_archive_options(java: Java, spark_home: Path, spark_version: str, *, folder: Path | None = None) -> list[str]:
    """Options for the JVM: use the archive of classes if there is one, else write it at the end."""
    archive = (folder or cache_folder()) / f"{_archive_name(java, spark_home, spark_version)}.jsa"
    try:
        archive.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _adopt(archive)
        if archive.is_file():
            return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if _may_record(archive):
            return [f"-XX:ArchiveClassesAtExit={archive.with_suffix(f'.{uuid.uuid4().hex}.part')}", "-Xlog:cds=off"]
    except OSError:
        return []  # no place to keep it: the start takes longer, and that is all
    return []


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "panes"


def _archive_name(java: Java, spark_home: Path, spark_version: str) -> str:
    """The JVM refuses an archive if any jar, or the way to it, has changed, so these are part of the name."""
    jars = spark_home / "jars"
    seen = [str(java.program.resolve()), str(jars), str(jars.resolve())]
    seen += [str(p.stat().st_mtime_ns) for p in sorted(jars.glob("spark-core*.jar"))]
    return f"spark-{spark_version}-java-{java.version}-{hashlib.sha256('|'.join(seen).encode()).hexdigest()[:12]}"


def _adopt(archive: Path) -> None:
    """Take a finished archive that an earlier session has left; remove what is not needed any more."""
    for part in archive.parent.glob(f"{archive.stem}.*.part"):
        if archive.is_file():
            part.unlink(missing_ok=True)
        elif _is_finished(part):
            os.replace(part, archive)
            archive.with_suffix(".recording").unlink(missing_ok=True)


def _is_finished(part: Path) -> bool:
    with part.open("rb") as file:
        return file.read(4) == _FINISHED


def _may_record(archive: Path) -> bool:
    """Whether this session is the one that writes the archive. One is enough: writing takes seconds."""
    mark = archive.with_suffix(".recording")
    try:
        if time.time() - mark.stat().st_mtime > _GIVEN_UP:
            mark.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


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
