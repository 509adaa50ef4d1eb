"""Forged states: real snapshots and checkpoints, altered by somebody who knows their layout and mends the checksum.

A forged state must never run code, end the process, or be loaded in a shape that nothing could have written: it is
refused by name, and what it was to be put into stays as it was; or it is loaded, if only numbers were altered that
could be true, and then goes on without raw errors. `python -m tests.robustness.forge --count 500 --seed 1` tries 500.
"""

from __future__ import annotations

import argparse
import base64
import copy
import dataclasses
import faulthandler
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from panes.aggregates.registry import entries, from_form
from panes.errors import PanesError, SnapshotError, SnapshotUntrusted
from panes.state import pickles
from panes.state.snapshot import MAGIC, _write, pack, unpack
from tests.robustness import forge_subjects

Facts = dict[str, Any]
Tables = dict[str, pa.Table]
#: Names of columns that hold snapshots inside of snapshots.
INSIDE = ("window", "snapshot", "blob")
#: Seconds that one forged state may take.
PATIENCE = 60
ODD: tuple[Any, ...] = (
    None, -1, 0, 1, 7, 2**31, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63), 2**70, 1.5, "", "x", [], {}, [1], True, False,
)  # fmt: skip


#: Texts that are no aggregates of this query, or cost much.
SQL = (
    "max(read_text('/etc/hostname'))", "count(*) FROM read_csv('/etc/passwd')", "sum(x); DROP TABLE t", "sum(nowhere)",
    "max(getenv('HOME'))", "x", "", "sum(x) OVER ()", "(" * 5000 + "x" + ")" * 5000, "max((SELECT 1))", "sum(k)",
    "min(v)", "max(repeat(k, 3))", "quantile(v, 7)", "histogram_numeric(v, 100000000000000000000000)", "count(*)",
    "sum(x) / 0",
)  # fmt: skip
#: Options that some aggregate has.
OPTIONS: tuple[Any, ...] = (
    0.5,
    [0.1, 0.9],
    "linear",
    "disc",
    3,
    ", ",
    "corr",
    "regr_count",
    0.05,
    float("inf"),
    5e-324,
)


class Canary:
    """Whoever unpickles it runs code: a file is there afterwards."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> Any:
        return open, (self._path, "w")


@dataclass
class Forger:
    """Alters states at random."""

    dice: random.Random
    canary: bytes

    def state(self, facts: Facts, tables: Tables) -> bytes:
        """One to three alterations, packed anew."""
        facts, tables = copy.deepcopy(facts), dict(tables)
        for _ in range(self.dice.choice((1, 1, 1, 2, 3))):
            change = self.dice.choice(
                (self.fact, self.fact, self.table, self.column, self.column, self.column, self.pickle, self.outputs)
            )
            facts, tables = change(facts, tables)
        blob = packed(facts, tables)
        return self.bytes(blob) if self.dice.random() < 0.1 else blob

    def blob(self, blob: bytes) -> bytes:
        try:
            return self.state(*unpack(blob))
        except SnapshotError:  # one inside of another that was altered already
            return blob

    def bytes(self, blob: bytes) -> bytes:
        """Single bytes, with a checksum that fits."""
        body = bytearray(body_of(blob))
        for _ in range(self.dice.choice((1, 2, 8))):
            body[self.dice.randrange(len(body))] = self.dice.choice((0, 1, 127, 128, 255, self.dice.randrange(256)))
        return sealed(bytes(body))

    # --- facts ---

    def fact(self, facts: Facts, tables: Tables) -> tuple[Facts, Tables]:
        places = list(_places(facts))
        if not places:
            return facts, tables
        holder, at = self.dice.choice(places)
        what = self.dice.randrange(6)
        if what == 0:
            del holder[at]
        elif what == 1 and isinstance(holder, list):
            holder.insert(self.dice.randrange(len(holder) + 1), copy.deepcopy(holder[at]))
        elif what == 2 and isinstance(holder[at], int):
            holder[at] += self.dice.choice((-1, 1, 100, -1000))
        elif what == 3 and isinstance(holder, dict):
            holder[self.dice.choice(("pickled", "kind", "x"))] = self._text()
        else:
            holder[at] = copy.deepcopy(self.dice.choice(ODD))
        return facts, tables

    def outputs(self, facts: Facts, tables: Tables) -> tuple[Facts, Tables]:
        """What a window gives that has outputs of its own: another aggregate, or text that is no aggregate."""
        own = [each for each in facts.get("outputs", {}).values() if isinstance(each, dict) and each.get("written")]
        if not own:
            return self.fact(facts, tables)
        chosen = self.dice.choice(own)
        written = self.dice.choice(chosen["written"])
        if not isinstance(written, list) or len(written) != 2:
            return self.fact(facts, tables)
        if self.dice.random() < 0.4:
            sql = self.dice.choice(SQL)
            written[1], computed = {"sql": sql}, sql
        else:
            kind = self.dice.choice([entry.spec for entry in entries()])
            given = {f.name: self.dice.choice((*OPTIONS, *ODD)) for f in dataclasses.fields(kind)[1:]}
            columns = [
                self.dice.choice(("v", "x", "k", "ts", "v + x", "nowhere")) for _ in range(self.dice.randrange(4))
            ]
            written[1] = {"kind": kind.__name__, "fields": {"inputs": columns, **given}}
            computed = f"{written[0]}({', '.join(columns)})"
            with suppress(Exception):  # whatever can't be made is to be refused
                computed = repr(from_form(written[1]))
        if self.dice.random() < 0.8 and isinstance(chosen.get("computed"), dict):
            chosen["computed"][written[0]] = computed
        return facts, tables

    def _text(self) -> str:
        return base64.b64encode(self.canary).decode()

    # --- tables ---

    def table(self, facts: Facts, tables: Tables) -> tuple[Facts, Tables]:
        if not tables:
            return facts, tables
        name = self.dice.choice(list(tables))
        found = tables[name]
        n = found.num_rows
        what = self.dice.randrange(8) if n < 10**6 else 0
        if what == 0:
            del tables[name]
        elif what == 1:
            tables[self.dice.choice(("x", name + ".x", name[:-1]))] = tables.pop(name)
        elif what == 2:
            other = self.dice.choice(list(tables))
            tables[name], tables[other] = tables[other], tables[name]
        elif what == 3:
            tables[name] = found.slice(0, self.dice.choice((0, n // 2, max(n - 1, 0))))
        elif what == 4:
            tables[name] = pa.concat_tables([found, found.slice(0, self.dice.choice((1, n)))])
        elif what == 5 and n:
            tables[name] = found.take(pa.array([self.dice.randrange(n) for _ in range(n)]))
        elif what == 6:
            tables[name] = pa.table({"x": pa.nulls(self.dice.choice((0, 1, 10**8)))})
        else:
            tables[self.dice.choice(("late", "raw", "due", "keys", "x"))] = found
        return facts, tables

    def column(self, facts: Facts, tables: Tables) -> tuple[Facts, Tables]:
        filled = [name for name, each in tables.items() if each.num_columns and 0 < each.num_rows < 10**6]
        if not filled:
            return self.table(facts, tables)
        name = self.dice.choice(filled)
        found = tables[name]
        i = self.dice.randrange(found.num_columns)
        field, values = found.schema.field(i), found.column(i)
        if field.name in INSIDE and pa.types.is_large_binary(field.type) | pa.types.is_binary(field.type):
            cells = [self.blob(v) if v and v.startswith(MAGIC) else v for v in values.to_pylist()]
            tables[name] = found.set_column(i, field, pa.array(cells, field.type))
            return facts, tables
        what = self.dice.randrange(8)
        if what == 0:
            tables[name] = found.remove_column(i)
        elif what == 1:
            tables[name] = found.set_column(i, field.name + self.dice.choice((".x", ".json", ".tuples", "0")), values)
        elif what == 2:
            tables[name] = found.set_column(i, field.name, self._retyped(values))
        elif what == 3:
            mask = pa.array([self.dice.random() < 0.5 for _ in range(len(values))])
            tables[name] = found.set_column(i, field, _with_nulls(values, mask))
        else:
            tables[name] = found.set_column(i, field, self._revalued(values))
        return facts, tables

    def _retyped(self, values: pa.ChunkedArray) -> Any:
        kinds = (pa.int32(), pa.float64(), pa.string(), pa.int64(), pa.bool_(), pa.binary(), pa.uint64())
        kind = self.dice.choice(kinds)
        try:
            return values.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.nulls(len(values), kind)

    def _revalued(self, values: pa.ChunkedArray) -> Any:
        """Other values of the same type."""
        kind, given = values.type, values.to_pylist()
        at = self.dice.randrange(len(given))
        if pa.types.is_integer(kind):
            odd = [v for v in ODD if type(v) is int] + [given[self.dice.randrange(len(given))]]
            if given[at] is not None:
                odd += [given[at] + 1, given[at] - 1, -given[at], given[at] + 1000]
            given[at] = self.dice.choice(odd)
        elif pa.types.is_floating(kind):
            given[at] = self.dice.choice((0.0, -1.0, 1e300, float("inf"), float("-inf"), float("nan")))
        elif pa.types.is_boolean(kind):
            given[at] = not given[at]
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            given[at] = self.dice.choice(("", "x", "1", "null", "[1, 2]", self._text()))
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            given = [self.dice.choice((self.canary, b"", b"x", v)) for v in given]
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            given[at] = self.dice.choice(([], (given[at] or []) * 2, (given[at] or [])[:-1], (given[at] or [])[::-1]))
        try:
            return pa.array(given, kind)
        except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
            return pa.nulls(len(given), kind)

    # --- pickles ---

    def pickle(self, facts: Facts, tables: Tables) -> tuple[Facts, Tables]:
        """A pickle in every place that could hold one, or one of them."""
        windows = facts.get("windows")
        if isinstance(windows, list) and windows and self.dice.random() < 0.4:
            spec = {"pickled": self._text()}
            chosen = self.dice.choice(windows)
            if isinstance(chosen, list) and len(chosen) == 3:
                inside = (
                    isinstance(chosen[2], dict) and isinstance(chosen[2].get("fields"), dict) and chosen[2]["fields"]
                )
                if inside and self.dice.random() < 0.5:
                    inside[self.dice.choice(list(inside))] = {"window": spec}
                else:
                    chosen[2] = spec
            return facts, tables
        every = self.dice.random() < 0.3
        names = [n for n, each in tables.items() if each.num_columns]
        for name in names if every else names and [self.dice.choice(names)]:
            found = tables[name]
            if not 0 < found.num_rows < 10**6:
                continue
            for i in range(found.num_columns) if every else [self.dice.randrange(found.num_columns)]:
                binary = pa.array([self.canary] * found.num_rows, self.dice.choice((pa.binary(), pa.large_binary())))
                column = found.schema.field(i).name
                renamed = column if self.dice.random() < 0.4 else column.removesuffix(".pickled") + ".pickled"
                found = found.set_column(i, renamed, binary)
            tables[name] = found
        return facts, tables


def _with_nulls(values: pa.ChunkedArray, mask: pa.Array) -> Any:
    kept = [v if keep else None for v, keep in zip(values.to_pylist(), mask.to_pylist())]
    return pa.array(kept, values.type)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in facts: what holds it, and its name or number there."""
    for at in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, at
        yield from _places(value[at])


def packed(facts: Any, tables: Tables) -> bytes:
    """What `pack` makes, of facts of any shape."""
    if isinstance(facts, dict):
        return pack(facts, tables)
    streams = [(name, _write(each)) for name, each in tables.items()]
    header = json.dumps({"facts": facts, "tables": [[n, len(d)] for n, d in streams]}).encode()
    return sealed(len(header).to_bytes(8, "little") + header + b"".join(d for _, d in streams))


def body_of(blob: bytes) -> bytes:
    from panes.state.snapshot import _HEAD

    return blob[_HEAD.size :]


def sealed(body: bytes) -> bytes:
    """A body with the head that fits it."""
    from panes.state.snapshot import _HEAD, FORMAT, _checksum

    return _HEAD.pack(MAGIC, FORMAT, len(body), _checksum(FORMAT, body)) + body


class Fault(AssertionError):
    """A forged state did what none may do."""


def attempt(subject: forge_subjects.Subject, seed: int, folder: Path) -> str:
    """Forge a state of the subject, and try it; what came of it."""
    dice = random.Random(f"{subject.name} {seed}")
    spy = folder / "ran"
    forger = Forger(dice, pickles.dumps(Canary(spy)))
    forged = subject.forged(forger)
    # where a query has no code of its own, nothing is unpickled even if somebody calls the bytes trusted
    trusted = not subject.user_code and subject.trusts(forged) and dice.random() < 0.5
    fresh = subject.fresh()
    before = subject.picture(fresh)
    try:
        loaded = subject.load(fresh, forged, trusted)
    except SnapshotError as error:
        outcome = "untrusted" if isinstance(error, SnapshotUntrusted) else "refused"
        if before is not None and subject.picture(fresh) != before:
            raise Fault("what refused the state has changed") from error
    else:
        outcome = "loaded"
        try:
            again = subject.picture(loaded)
            if again is not None:
                subject.load(subject.fresh(), again, trusted)
        except SnapshotError as error:
            raise Fault(f"a state of the wrong shape was loaded: {error}") from error
        try:
            subject.go_on(loaded)
        except PanesError:
            outcome = "loaded, then refused rows"
    if spy.exists():
        spy.unlink()
        raise Fault("code was run")
    return outcome


@cache
def subjects() -> list[forge_subjects.Subject]:
    return forge_subjects.subjects()


def tried(
    numbers: range, seed: int, note: Callable[[int], None] = lambda number: None
) -> tuple[Counter[str], list[str]]:
    """Many attempts; how often what came of them, and what went wrong."""
    outcomes: Counter[str] = Counter()
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            note(number)
            subject = subjects()[number % len(subjects())]
            try:
                outcomes[attempt(subject, seed * 1_000_003 + number, Path(folder))] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                told = "".join(traceback.format_exception(error)[-4:])
                faults.append(
                    f"{subject.name}, number {number} of seed {seed}: {type(error).__name__}: {error}\n{told}"
                )
    return outcomes, faults


def _work(start: int, stop: int, seed: int, at: Path) -> int:
    """The attempts of one process, which notes where it is: it may not survive."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))

    def note(number: int) -> None:
        at.write_text(str(number))
        faulthandler.dump_traceback_later(PATIENCE, exit=True)

    for subject in subjects():
        subject.prepare()
    outcomes, faults = tried(range(start, stop), seed, note)
    faulthandler.cancel_dump_traceback_later()
    at.write_text(json.dumps([outcomes, faults]))
    return 0


def main() -> int:
    """Tries forged states in processes of their own, so that one that ends a process is found too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this number alone, in this process")
    parser.add_argument("--work", nargs=2, metavar=("START", "FILE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only is not None:
        outcomes, faults = tried(range(asked.only, asked.only + 1), asked.seed)
        print(*faults, dict(outcomes), sep="\n")
        return bool(faults)
    if asked.work:
        return _work(int(asked.work[0]), asked.count, asked.seed, Path(asked.work[1]))
    outcomes, faults = Counter[str](), list[str]()
    start = 0
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "at"
        while start < asked.count:
            command = [sys.executable, "-m", "tests.robustness.forge", "--work", str(start), str(at)]
            done = subprocess.run(
                [*command, "--count", str(asked.count), "--seed", str(asked.seed)], check=False, capture_output=True
            )
            if done.returncode == 0:
                some, wrong = json.loads(at.read_text())
                outcomes.update(some)
                faults += wrong
                break
            number = int(at.read_text()) if at.exists() else start
            how = signal.strsignal(-done.returncode) if done.returncode < 0 else f"exit {done.returncode}"
            faults.append(
                f"number {number} of seed {asked.seed} ended the process ({how}):\n{done.stderr.decode()[-1500:]}"
            )
            outcomes["before a process ended"] += number - start
            start = number + 1
    print(
        f"{sum(outcomes.values())} forged states: " + ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items()))
    )
    for fault in faults:
        print("FAULT", fault, sep=" ")
    print(f"{len(faults)} faults")
    return bool(faults)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    sys.exit(main())
