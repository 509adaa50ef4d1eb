"""The process that runs one tree: `python -m bench.against.worker embedded|spark FOLDER`.

It answers requests, a line of JSON each: `{"prepare": "w1", "rows": null}`, then `{"pass": 1}` as often as wanted.
Answers go to what was standard output when it started; whatever is printed meanwhile goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.against.work import EMBEDDED, Pass, Work


def main(kind: str, folder: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    works = _works(kind)
    ready: Callable[[], Pass] | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if "prepare" in request:
                ready = None  # the input of the last workload goes before the next is made
                _check(folder)
                ready = works[request["prepare"]].prepare(request["rows"])
                answer = {"ready": True}
            else:
                assert ready is not None, "a pass before anything was prepared"
                answer = asdict(ready())
        except Exception as error:  # the other workloads still run
            answer = {"error": f"{type(error).__name__}: {str(error).strip() or 'no message'}"[:500]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    if kind != EMBEDDED:
        from bench.against import on_spark

        if on_spark.session.cache_info().currsize:
            on_spark.session().stop()


def _works(kind: str) -> dict[str, Work]:
    if kind == EMBEDDED:
        from bench.against.embedded import WORKS
        from bench.harness import one_core

        one_core()
    else:
        from bench.against.on_spark import WORKS
    return {work.name: work for work in WORKS}


def _check(folder: str) -> None:
    """Another Panes on the path would compare a tree with itself."""
    import panes

    found = Path(str(panes.__file__)).resolve()
    if not found.is_relative_to(Path(folder).resolve()):
        raise RuntimeError(f"panes was imported from {found}, not from {folder}")


if __name__ == "__main__":
    main(*sys.argv[1:])
