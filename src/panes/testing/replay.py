"""`replay_transcript`: goes through a transcript on a runner and compares every step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panes.errors import QueryError
from panes.slicing.results import Result
from panes.testing.transcript import Ledger, Transcript, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNERS = ("local", "spark", "spark-static")


def replay_transcript(
    transcript: Mapping[str, Any] | str | Path,
    *,
    runner: str = "local",
    spark: SparkSession | None = None,
    names: Mapping[str, Any] | None = None,
) -> None:
    """Go through a transcript, a dict or the path of a YAML file; TranscriptError says which step differs.

    - `runner`: "local" pushes rows to an operator in this process. "spark" runs a streaming query, each step in
      micro-batches of its own; a restart stops it and starts it from its checkpoint; `finish` is left out, since
      a stream on Spark has no end. "spark-static" runs the query over all rows as a static frame and compares
      what all steps expect together.
    - `spark`: the session, by default `pn.spark()`.
    - `names`: window classes and aggregates of your own that the text may call.
    """
    loaded = load(transcript, names)
    if runner == "local":
        play_local(loaded)
    elif runner in RUNNERS:
        from panes.runners.spark.session import spark as default_session
        from panes.testing import play_spark

        play = play_spark.play_static if runner == "spark-static" else play_spark.play_stream
        play(loaded, spark or default_session())
    else:
        raise QueryError(f"runner must be one of {', '.join(map(repr, RUNNERS))}; got {runner!r}")


def play_local(transcript: Transcript) -> None:
    """Every step is a call on the operator."""
    query = transcript.query()
    op = query.operator()
    ledger = Ledger(transcript)
    for step in transcript.steps:
        result: Result | None = None
        if step.action == "rows":
            result = op.push(transcript.rows(step, op.spec.schema))
        elif step.action == "watermark":
            result = op.advance(step.value)
        elif step.action == "finish":
            result = op.finish()
        else:
            op = query.operator(restore=op.snapshot(), trusted=True)
        ledger.results += [] if result is None else result.rows()
        ledger.late += op.take_late().to_pylist()
        ledger.check(step)
    ledger.close()
