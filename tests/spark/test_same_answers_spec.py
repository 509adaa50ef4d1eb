"""Every worked example of tests/spec, streaming and static on Spark: the answers of the embedded runner.

The YAML of tests/spec is turned into transcripts. A stream of its own takes half a dozen seconds, so all examples
stream together in one query, and a few of different kinds step by step through the public API. Where Spark can't
do what an example does, a strict xfail names the limit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panes as pn
from examples.dynamic_stock import DynamicStock
from panes.testing.play_spark import MicroBatchCutter, all_steps
from panes.testing.transcript import Ledger, Transcript, load
from tests.fuzz import user_windows
from tests.fuzz.code import aggregate_code, window_code
from tests.fuzz_spark.together import Given, Together, member, micro_batch
from tests.spec.test_spec_examples import EXAMPLES, TRANSCRIPTS

NAMES: dict[str, Any] = {
    "DynamicStock": DynamicStock,
    **{n: v for n, v in vars(user_windows).items() if isinstance(v, type)},
}
FIELDS = {"start": "window_start", "end": "window_end", "from": "window_from", "to": "window_to"}
ACTIONS = {"push": "rows", "advance": "watermark", "finish": "finish"}

NO_LATE_ROWS = "a static frame has no watermark, so none of its rows is late"
NO_END = "the example does not end its stream, and a static frame always ends"


def transcript_of(example: dict[str, Any]) -> dict[str, Any]:
    types = example.get("types", {})
    keys = list(example.get("keys", ()))
    return {
        "name": example["id"],
        "stream": {
            "schema": {c: "bigint" if c == "ts" else types.get(c, "double") for c in example["columns"]},
            "time": "ts",
            "key": keys,
            "watermark": example.get("watermark"),
            "lateness": example.get("lateness"),
        },
        "windows": {label: window_code(tuple(spec)) for label, spec in example["windows"].items()},
        "aggregates": {n: _aggregate(tuple(spec)) for n, spec in example["aggregates"].items()},
        "steps": [_step(step, keys) for step in example["steps"]],
    }


def _aggregate(spec: tuple[Any, ...]) -> str:
    return aggregate_code(spec).strip('"')


def _step(step: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    action = next(name for name in ACTIONS if name in step)
    return {ACTIONS[action]: step[action], "expect": [_result(r, keys) for r in step["expect"]]}


def _result(result: dict[str, Any], keys: list[str]) -> dict[str, Any]:
    fields = {FIELDS.get(name, name): value for name, value in result.items() if name != "key"}
    if not fields.get("void", True):
        del fields["void"]
    return {**fields, **dict(zip(keys, result.get("key", ())))}


def late(example: dict[str, Any]) -> bool:
    return any(r.get("revision") for step in example["steps"] for r in step["expect"])


def ended(example: dict[str, Any]) -> bool:
    return "finish" in example["steps"][-1]


def examples(limit: Callable[[dict[str, Any]], str | None]) -> list[Any]:
    marked = []
    for example in TRANSCRIPTS:
        reason = limit(example)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
        marked.append(pytest.param(example, id=example["id"], marks=marks))
    return marked


def static_limit(example: dict[str, Any]) -> str | None:
    return NO_LATE_ROWS if late(example) else None if ended(example) else NO_END


@pytest.mark.parametrize("example", examples(lambda example: None))
def test_spec_examples_are_right_in_this_process(example: dict[str, Any]) -> None:
    pn.testing.replay_transcript(transcript_of(example), names=NAMES)


#: a watermark that follows the rows, windows of a user's own, corrections by late rows
ALONE = ("W-05", "W-06", "S-33-late")


@pytest.mark.parametrize("example", [e for e in examples(lambda example: None) if e.id in ALONE])
def test_spec_examples_are_right_as_a_stream(example: dict[str, Any], spark: Any) -> None:
    pn.testing.replay_transcript(transcript_of(example), runner="spark", spark=spark, names=NAMES)


def test_all_spec_examples_are_right_in_one_stream(spark: Any, tmp_path: Path) -> None:
    transcripts = [load(transcript_of(example), NAMES) for example in TRANSCRIPTS]
    played = [micro_batches(transcript) for transcript in transcripts]
    length = max(len(batches) for batches in played)
    # those that end earlier wait with the watermark that they have
    padded = [[*batches, *[(None, batches[-1][1])] * (length - len(batches))] for batches in played]
    members = [
        member(transcript.query(), [mark for _, mark in batches], groups=2, keep_late=True, at_once=True)
        for transcript, batches in zip(transcripts, padded)
    ]
    inputs = [
        micro_batch(number, [[] if batches[number][0] is None else [batches[number][0]] for batches in padded])
        for number in range(length)
    ]
    found = Together(spark, members, tmp_path).run(inputs)
    for number, transcript in enumerate(transcripts):
        given = found.get(number, Given())
        ledger = Ledger(transcript)
        ledger.results = [row for table in given.results for row in table.to_pylist()]
        ledger.late = [row for table in given.late for row in table.to_pylist()]
        ledger.check(all_steps([step for step in transcript.steps if step.action != "finish"]))
        ledger.close()


def micro_batches(transcript: Transcript) -> list[tuple[pa.Table | None, int | None]]:
    """Rows of each micro-batch, and the watermark after it; a stream on Spark has no end, so `finish` is left out."""
    schema = transcript.query().operator().spec.schema
    cutter, follower = MicroBatchCutter(transcript), MicroBatchCutter(transcript)
    begin = follower.reached
    found: list[tuple[pa.Table | None, int | None]] = []
    for step in transcript.steps:
        pieces: list[pa.Table | None] = []
        if step.action == "rows":
            pieces += cutter.cut(transcript.rows(step, schema))
        elif step.action == "watermark":
            follower.reached = max(follower.reached, follower.domain.point(step.value))
            pieces = [None]
        for piece in pieces:
            if piece is not None:
                follower.late(piece)
            found.append((piece, None if follower.reached == begin else follower.reached))
    return found


@pytest.mark.parametrize("example", examples(static_limit))
def test_spec_examples_are_right_as_a_static_frame(example: dict[str, Any], spark: Any) -> None:
    pn.testing.replay_transcript(transcript_of(example), runner="spark-static", spark=spark, names=NAMES)


def test_every_example_is_there() -> None:
    assert len(TRANSCRIPTS) == EXAMPLES
