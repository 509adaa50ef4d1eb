"""A few kills of a running stream: `make chaos` in small."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.chaos.job import SINKS, Job, micro_batches, undisturbed
from tests.chaos.killer import Kill, committed, run_under_fire
from tests.chaos.verdict import Verdict, compare, verdicts

#: When the sink that is behind is killed: in its first micro-batch, between two, and in one.
MOMENTS = [(0, True, 0.5), (1, False, 0.0), (1, True, 0.2)]


def kill_behind(place: Path, n: int) -> Kill | None:
    """The n-th kill. Of the sink that is behind: the other one may have come to its end on a busy machine."""
    if n == len(MOMENTS):
        return None
    return Kill(min(SINKS, key=lambda sink: committed(place, sink)), *MOMENTS[n])


@pytest.mark.xdist_group("spark apart")
def test_kills_lose_double_and_falsify_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, seed=3, files=5, rows=1500)
    job.prepare()
    right = undisturbed(job)
    kinds = set(right["window"].to_pylist())
    assert kinds == {"rows", "slide", "visit", None}  # None: late rows
    assert max(r for r in right["revision"].to_pylist() if r is not None) > 0

    place = tmp_path / "killed"
    kills = run_under_fire(job, place, lambda n: kill_behind(place, n))

    assert len(kills) == len(MOMENTS)
    for sink, verdict in verdicts(job, place).items():
        assert verdict.clean, f"{sink}: {verdict}"


def test_micro_batches_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch, offset in enumerate([0, 3, 4, 4]):  # the kill before batch 1 joined three files, 3 had no data
        (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{offset}}}')
    (offsets / ".3.crc").write_bytes(b"")
    assert micro_batches(tmp_path) == [1, 4, 5, 5]

    job = Job(tmp_path, seed=3, files=5, rows=1500)
    assert not compare(undisturbed(job, [1, 4, 5, 5]), undisturbed(job)).clean  # what is late depends on the cut


def test_the_verdict_sees_what_is_lost_double_and_wrong() -> None:
    right = pa.table({"k": [1, 1, 2, 3], "v": [5, 5, 6, 7]})
    written = pa.table({"k": [1, 2, 2, 3], "v": [5, 6, 6, 8]})
    assert compare(written, right) == Verdict(rows=4, lost=2, double=1, wrong=1)
    assert compare(right.take([3, 1, 0, 2]), right).clean
