"""Files that can't be read, in whole or in part: errors and rejected lines name the file, the line and the columns."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import panes as pn
from panes.errors import DataError, PanesError

SCHEMA = {"t": "bigint", "v": "bigint"}


def _written(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def _read(path: Any, schema: Any = SCHEMA) -> tuple[list[Any], list[str]]:
    stream = pn.stream(path, time="t", schema=schema)
    rows = [tuple(row.values()) for row in stream.to_arrow().to_pylist()]
    return rows, stream.late.column("reason").to_pylist()


def _cql(path: str) -> tuple[list[Any], list[str]]:
    query = pn.sql(f"CREATE STREAM s (t BIGINT, v BIGINT) SOURCE FILE ('{path}'); SELECT t, v FROM s")
    return [tuple(row.values()) for row in query.to_arrow().to_pylist()], query.late.column("reason").to_pylist()


LINES = b"t,v\n" + b"".join(b"%d,%d\n" % (i, i * 7919 % 1_000_003) for i in range(60_000))


@pytest.mark.parametrize("read", [_read, _cql])
@pytest.mark.parametrize("kept", [20, 200_000])
def test_a_compressed_file_that_is_cut_off_is_named(tmp_path: Path, read: Any, kept: int) -> None:
    path = _written(tmp_path, "cut.csv.gz", gzip.compress(LINES)[:kept][:-1000] or gzip.compress(LINES)[:kept])
    with pytest.raises(DataError, match=r"cut\.csv\.gz.*: the compressed file is cut off"):
        read(path)


def test_a_file_that_is_not_compressed_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"plain\.csv\.gz: "):
        _read(_written(tmp_path, "plain.csv.gz", b"t,v\n1,2\n"))


@pytest.mark.parametrize("read", [_read, _cql])
def test_lines_that_end_in_cr_alone_are_read(tmp_path: Path, read: Any) -> None:
    assert read(_written(tmp_path, "mac.csv", b"t,v\r1,2\r3,x\r5,6\r")) == (
        [(1, 2), (5, 6)],
        [f"malformed line 3 of {tmp_path / 'mac.csv'} (column 'v' must be int64, and has 'x'): 3,x"],
    )


@pytest.mark.parametrize("read", [_read, _cql])
@pytest.mark.parametrize("text", [b"t,v\n", b"t,v", b"\xef\xbb\xbft,v\r\n"])
def test_a_csv_with_only_a_header_gives_nothing(tmp_path: Path, read: Any, text: bytes) -> None:
    assert read(_written(tmp_path, "empty.csv", text)) == ([], [])


def test_a_header_with_other_names_is_refused_by_file_line_and_columns(tmp_path: Path) -> None:
    path = _written(tmp_path, "other.csv", b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"other\.csv, line 1: .*'t'.*a, b"):
        _read(path)
    with pytest.raises(DataError, match=r"other\.csv, line 1: the columns are a, b, and the stream has t, v"):
        _cql(path)
    with pytest.raises(DataError, match=r"other\.csv, line 1: there is no column 't'; the columns are a, b"):
        _read([_written(tmp_path, "first.csv", b"t,v\n1,2\n"), path])


@pytest.mark.parametrize("read", [_read, _cql])
def test_a_header_says_in_which_order_columns_are(tmp_path: Path, read: Any) -> None:
    assert read(_written(tmp_path, "turned.csv", b"V,w,T\n1,x,2\n".replace(b"V", b"v").replace(b"T", b"t")))[1] == []
    assert sorted(read(str(tmp_path / "turned.csv"))[0][0], key=str)[:2] == [1, 2]


def test_cql_reads_columns_by_the_names_in_the_first_line(tmp_path: Path) -> None:
    assert _cql(_written(tmp_path, "turned.csv", b"V,w,T\n1,x,2\n")) == ([(2, 1)], [])
    assert _cql(_written(tmp_path, "without.csv", b"2,1\n")) == ([(2, 1)], [])


@pytest.mark.parametrize("read", [_read, _cql])
def test_rejected_lines_are_named_by_file_and_line(tmp_path: Path, read: Any) -> None:
    path = _written(tmp_path, "bad.csv", b't,v\n1,2\n\n1,2,3\n"3\n",x\n\n7,8\ny,9\n')
    rows, reasons = read(path)
    assert rows == [(1, 2), (7, 8)]
    assert [reason.partition(" (")[0] for reason in reasons] == [f"malformed line {n} of {path}" for n in (4, 5, 9)]
    assert "it has 3 values, and there are 2 columns" in reasons[0]
    assert "column 't' must be int64, and has 'y'" in reasons[2]


def test_lines_are_counted_over_all_pieces_of_a_file(tmp_path: Path) -> None:
    lines = [b"%d,%d" % (i, i) for i in range(900_000)]
    lines[800_000] = b"odd,1"
    path = _written(tmp_path, "long.csv", b"t,v\n" + b"\n".join(lines) + b"\n")
    assert _read(path)[1] == [f"malformed line 800,002 of {path} (column 't' must be int64, and has 'odd'): odd,1"]


def test_json_nested_too_deeply_is_a_rejected_line(tmp_path: Path) -> None:
    deep = b'{"t":1,"v":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    path = _written(tmp_path, "deep.json", deep + b'\n{"t":2,"v":3}\n')
    for schema in (None, SCHEMA, {"t": "bigint", "v": "decimal(10, 2)"}):
        rows, reasons = _read(path, schema)
        assert [row[0] for row in rows] == [2]
        assert [reason.partition(" (")[0] for reason in reasons] == [f"malformed line 1 of {path}"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"name: x\nsteps: [1,\n", r"bad\.yaml, line 3: this is not YAML"),
        (b"a: *nobody", r"bad\.yaml, line 1: this is not YAML: found undefined alias"),
        (b"\xff\xfe", r"bad\.yaml: this is not YAML: it is not UTF-8"),
        (b"a: " + b"[" * 5000, r"bad\.yaml: this is not YAML: it is nested too deeply"),
        (b"\x00", r"bad\.yaml: this is not YAML"),
    ],
)
def test_a_transcript_that_is_no_yaml_is_refused_by_file_and_line(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(PanesError, match=message):
        pn.testing.replay_transcript(_written(tmp_path, "bad.yaml", text))
