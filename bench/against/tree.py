"""The files of both trees in folders of their own, for as long as they are needed."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NoRevision(Exception):
    """The revision can't be had; the message says why."""


@dataclass(frozen=True)
class Tree:
    """Where a Panes is (the folder that holds `src/panes`), and what to call it."""

    name: str
    folder: Path


@contextmanager
def this_tree() -> Iterator[Tree]:
    """A copy of the checkout as it is, uncommitted changes included, with the benchmarks; removed at the end.

    A run takes long: whoever edits files meanwhile must not change what is measured.
    """
    with tempfile.TemporaryDirectory(prefix="panes-against-") as made:
        for part in ("src", "bench"):
            shutil.copytree(ROOT / part, Path(made) / part)
        yield Tree("this tree", Path(made))


def commit_of(revision: str) -> str:
    """The full name of the commit."""
    if revision.startswith("-"):
        raise NoRevision(f"{revision!r} is no revision")
    try:
        done = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except FileNotFoundError:
        raise NoRevision("git is not installed") from None
    if done.returncode:
        raise NoRevision(f"{revision!r} is no revision of the repository in {ROOT}")
    return done.stdout.decode().strip()


@contextmanager
def checked_out(revision: str) -> Iterator[Tree]:
    """The package as of the revision, outside the repository; removed at the end."""
    commit = commit_of(revision)
    with tempfile.TemporaryDirectory(prefix="panes-against-") as made:
        folder = Path(made)
        archive = folder / "tree.tar"
        done = _git("archive", "--format=tar", f"--output={archive}", commit, "src")
        if done.returncode:
            raise NoRevision(f"git can't give the files of {revision!r}: {done.stderr.decode().strip()}")
        with tarfile.open(archive) as packed:
            packed.extractall(folder)  # git wrote it just now, from this repository
        archive.unlink()
        if not (folder / "src" / "panes" / "__init__.py").is_file():
            raise NoRevision(f"{revision!r} has no src/panes")
        yield Tree(revision if revision == commit[: len(revision)] else f"{revision} ({commit[:7]})", folder)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
