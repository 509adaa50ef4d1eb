"""A few kills of a running stream: `make chaos` in small."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.chaos.job import Job, micro_batches, undisturbed
from tests.chaos.killer import Kill, run_under_fire
from tests.chaos.verdict import Verdict, compare, verdicts

#: In the first micro-batch, before anything is committed; between two; and late in one of each sink.
KILLS = [
    Kill("files", commits=0, mid_batch=True, seconds=0.5),
    Kill("foreach", commits=1, mid_batch=False, seconds=0.0),
    Kill("files", commits=1, mid_batch=True, seconds=0.2),
]


@pytest.mark.xdist_group("spark apart")
def test_kills_lose_double_and_falsify_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, seed=3, files=5, rows=1500)
    job.prepare()
    right = undisturbed(job)
    kinds = set(right["window"].to_pylist())
    assert kinds == {"rows", "slide", "visit", None}  # None: late rows
    assert max(r for r in right["revision"].to_pylist() if r is not None) > 0

    kills = run_under_fire(job, tmp_path / "killed", lambda n: KILLS[n] if n < len(KILLS) else None)

    assert len(kills) == len(KILLS)
    for sink, verdict in verdicts(job, tmp_path / "killed").items():
        assert verdict.clean, f"{sink}: {verdict}"


def test_micro_batches_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch, offset in enumerate([0, 1, 3, 4, 4]):  # the kill before batch 2 joined two files, 4 had no data
        (offsets / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{offset}}}')
    (offsets / ".4.crc").write_bytes(b"")
    assert micro_batches(tmp_path) == [1, 2, 4, 5]

    job = Job(tmp_path, seed=3, files=5, rows=1500)
    assert not compare(undisturbed(job, [1, 2, 4, 5]), undisturbed(job)).clean  # what is late depends on the cut


def test_the_verdict_sees_what_is_lost_double_and_wrong() -> None:
    right = pa.table({"k": [1, 1, 2, 3], "v": [5, 5, 6, 7]})
    written = pa.table({"k": [1, 2, 2, 3], "v": [5, 6, 6, 8]})
    assert compare(written, right) == Verdict(rows=4, lost=2, double=1, wrong=1)
    assert compare(right.take([3, 1, 0, 2]), right).clean
