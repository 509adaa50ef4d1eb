"""Transcripts: a stream, its windows and aggregates, and what happens step by step, as plain data.

In: a YAML file or a dict (docs/testing.md has the format). Out: a checked `Transcript` that a player
(`replay.py`, `play_spark.py`) goes through, and a `Ledger` that compares what comes with what is expected.

Windows and aggregates are text, built without running any code: one call, `sliding("10 s", every="1 s")`, with or
without `pn.` in front. Only public windows and aggregates can be called, and what the caller names on top; arguments
are plain values and further such calls.
"""

from __future__ import annotations

import ast
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from panes.api.stream import Query, stream
from panes.errors import QueryError
from panes.plan.batches import conform
from panes.plan.hints import did_you_mean

_STREAM = ("schema", "time", "key", "watermark", "lateness", "time_unit", "where")
_ACTIONS = ("rows", "watermark", "restart", "finish")
_PARTS = ("name", "about", "stream", "windows", "aggregates", "emit_empty", "steps")


class TranscriptError(AssertionError):
    """A step gave other results than its transcript says."""


@dataclass(frozen=True)
class TranscriptStep:
    """One step: `action` is "rows", "watermark", "restart" or "finish"; None: nothing is said about results."""

    number: int
    action: str
    value: Any
    expect: Sequence[Mapping[str, Any]] | None
    late: Sequence[Mapping[str, Any]] | None

    def __str__(self) -> str:
        return f"step {self.number} ({self.action})"


@dataclass(frozen=True)
class Transcript:
    """A query and its steps."""

    name: str
    stream: Mapping[str, Any]
    windows: Mapping[str, str]
    aggregates: Mapping[str, str]
    steps: tuple[TranscriptStep, ...]
    emit_empty: bool = False
    names: Mapping[str, Any] = field(default_factory=dict)

    @property
    def manual(self) -> bool:
        return self.stream.get("watermark") == "manual"

    def query(self, data: Any = None, **changed: Any) -> Query:
        """The query over `data`, with some of the stream's arguments changed."""
        arguments = {**self.stream, **changed}
        where = arguments.pop("where", None)
        if data is not None:
            arguments.pop("schema")
        rows = stream(data, **arguments)
        if where is not None:
            rows = rows.where(where)
        windows = {label: build_window(text, self.names) for label, text in self.windows.items()}
        aggregates = {name: build_aggregate(text, self.names) for name, text in self.aggregates.items()}
        return rows.window(emit_empty=self.emit_empty, **windows).agg(**aggregates)

    def rows(self, step: TranscriptStep, schema: pa.Schema) -> pa.Table:
        """The rows of a step, written as dicts or as lists in the order of the schema."""
        names = list(self.stream["schema"])
        rows = [row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in step.value]
        return conform(rows, schema)


def load(given: Mapping[str, Any] | str | Path, names: Mapping[str, Any] | None = None) -> Transcript:
    """Read a transcript from a dict or a YAML file; QueryError names what is wrong with it."""
    if not isinstance(given, Mapping):
        given = _read_yaml(Path(given))
    _check_names("a transcript", given, _PARTS)
    for part in ("stream", "windows", "aggregates", "steps"):
        if not given.get(part):
            raise QueryError(f"a transcript needs {part}")
    declared = dict(given["stream"])
    _check_names("stream", declared, _STREAM)
    for part in ("schema", "time"):
        if part not in declared:
            raise QueryError(f"the stream of a transcript needs {part}")
    steps = tuple(_step(number, step) for number, step in enumerate(given["steps"], 1))
    if any(step.action == "finish" for step in steps[:-1]):
        raise QueryError("finish ends a stream: it must be the last step")
    manual = declared.get("watermark") == "manual"
    if not manual and any(step.action == "watermark" for step in steps):
        raise QueryError("a step moves the watermark, which only a stream with watermark: manual allows")
    name = str(given.get("name", "transcript"))
    emit_empty = bool(given.get("emit_empty", False))
    return Transcript(name, declared, given["windows"], given["aggregates"], steps, emit_empty, names or {})


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise QueryError("transcripts in files need PyYAML: pip install 'panes[testing]'") from error
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise QueryError(f"{path}{line}: this is not YAML: {reason}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not UTF-8 text"
        raise QueryError(f"{path}: this is not YAML: {reason}") from error
    if not isinstance(found, Mapping):
        raise QueryError(f"{path} must hold one transcript, with stream, windows, aggregates and steps")
    return {"name": path.stem, **found}


def _check_names(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise QueryError(f"{what} has no part {name!r}{did_you_mean(str(name), known)}")


def _step(number: int, given: Mapping[str, Any]) -> TranscriptStep:
    _check_names(f"step {number}", given, (*_ACTIONS, "expect", "late"))
    actions = [name for name in _ACTIONS if name in given]
    if len(actions) != 1:
        raise QueryError(f"step {number} must have one of {', '.join(_ACTIONS)}; it has {actions or 'none'}")
    return TranscriptStep(number, actions[0], given[actions[0]], given.get("expect"), given.get("late"))


class Ledger:
    """Results that came and were not checked yet, against what steps expect."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._check_late = any(step.late is not None for step in transcript.steps)
        self.results: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []

    def check(self, step: TranscriptStep) -> None:
        """Compare all that came since the last check, if the step says what to expect."""
        where = f"{self._transcript.name}, {step}"
        if step.expect is not None:
            wanted = [{"revision": 0, **({"void": False} if self._has_void() else {}), **w} for w in step.expect]
            _compare(f"{where}: results", wanted, self.results)
            self.results = []
        if step.late is not None:
            _compare(f"{where}: late rows", step.late, self.late)
            self.late = []

    def close(self) -> None:
        """At the end nothing may be left that no step has expected."""
        _compare(f"{self._transcript.name}, at the end: results", [], self.results)
        if self._check_late:
            _compare(f"{self._transcript.name}, at the end: late rows", [], self.late)

    def _has_void(self) -> bool:
        return self._transcript.stream.get("lateness") is not None


def _compare(what: str, wanted: Sequence[Mapping[str, Any]], found: list[dict[str, Any]]) -> None:
    left = list(found)
    for row in wanted:
        match = next((g for g in left if all(n in g and same(v, g[n]) for n, v in row.items())), None)
        if match is None:
            raise TranscriptError(f"{what}: there is no {row} among {len(left)}:\n  " + "\n  ".join(map(str, left)))
        left.remove(match)
    if left:
        raise TranscriptError(f"{what}: more than expected:\n  " + "\n  ".join(map(str, left)))


def same(wanted: Any, found: Any) -> bool:
    """Whether a value is the one that was written down; times may be written as text."""
    if isinstance(found, dt.datetime):
        if isinstance(wanted, str):
            wanted = dt.datetime.fromisoformat(wanted)
        return isinstance(wanted, dt.datetime) and _utc(wanted) == _utc(found)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, float) and isinstance(found, int | float) and not isinstance(found, bool):
        return math.isclose(wanted, found, rel_tol=1e-12) or (math.isnan(wanted) and math.isnan(found))
    return bool(wanted == found)


def _utc(time: dt.datetime) -> dt.datetime:
    return time if time.tzinfo is None else time.astimezone(dt.timezone.utc).replace(tzinfo=None)


def build_window(text: str, names: Mapping[str, Any]) -> Any:
    """The window that the text describes."""
    if not isinstance(text, str):
        raise QueryError(f"a window is written as text, for instance tumbling('1 min'); got {text!r}")
    from panes import units, windows

    return _build(text, {**_functions(windows), "rows": units.rows, **names})


def build_aggregate(text: str, names: Mapping[str, Any]) -> Any:
    """The aggregate: an object if the text begins with `pn.` or one of `names`, SQL text otherwise."""
    if not isinstance(text, str):
        raise QueryError(f"an aggregate is written as text, for instance sum(v); got {text!r}")
    called = text.partition("(")[0].strip()
    if not (called.startswith("pn.") or called in names):
        return text
    from panes import aggregates

    return _build(text, {**_functions(aggregates), **names})


def _functions(room: ModuleType) -> dict[str, Any]:
    """The public functions of a room, by name."""
    return {name: getattr(room, name) for name in room.__all__ if name.islower()}


def _build(text: str, known: Mapping[str, Any]) -> Any:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise QueryError(f"{text!r} can't be read: {error.msg}") from error
    if not isinstance(node, ast.Call):
        raise QueryError(f"{text!r} must be a call, for instance tumbling('1 min')")
    return _value(node, known, text)


def _value(node: ast.expr, known: Mapping[str, Any], text: str) -> Any:
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name not in known:
            raise QueryError(f"{text!r}: {name!r} is not known{did_you_mean(name, sorted(known))}")
        named = {str(k.arg): _value(k.value, known, text) for k in node.keywords}
        return known[name](*(_value(a, known, text) for a in node.args), **named)
    if isinstance(node, ast.List):
        return [_value(e, known, text) for e in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(e, known, text) for e in node.elts)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise QueryError(f"{text!r}: {ast.unparse(node)} is no plain value") from error


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pn":
        return node.attr
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)
