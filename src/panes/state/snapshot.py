"""Snapshots: Arrow tables and a few facts, packed into bytes that can prove what they are.

Layout: magic, format version, checksum of the rest, then a JSON header (facts, and the size of each table)
followed by the tables as Arrow IPC streams. What is small and asked to be, such as changes, is deflated: the size of
the header is then 0, and the same as before follows. A reader refuses bytes it can't trust, by name:
`SnapshotForeign` (not ours, or another format), `SnapshotDamaged` (cut or altered).
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panes.errors import SnapshotDamaged, SnapshotForeign
from panes.state.checked import columns_of, fact, one_row, read_table, reading, value

MAGIC = b"PANES\x00\x1asnap"
FORMAT = 6
#: The oldest format that is read. New in 5: a snapshot of an operator may hold the changes since an epoch. New in 6:
#: what is small may be deflated.
OLDEST = 4
#: Bytes that are deflated at most, and that may come of them.
_SMALL = 1 << 16
_DEFLATED = struct.pack("<Q", 0)
_HEAD = struct.Struct("<11sIQ32s")


def pack(facts: Mapping[str, object], tables: Mapping[str, pa.Table], *, deflate: bool = False) -> bytes:
    """Facts (JSON values) and tables as one block of bytes; with `deflate`, fewer if they are few.

    >>> blob = pack({"rows": 2}, {"t": pa.table({"v": [1, 2]})})
    >>> facts, tables = unpack(blob)
    >>> facts["rows"], tables["t"]["v"].to_pylist()
    (2, [1, 2])
    """
    streams = {name: _write(table) for name, table in tables.items()}
    header = json.dumps(
        {"facts": dict(facts), "tables": [[name, len(data)] for name, data in streams.items()]},
        separators=(",", ":"),
        sort_keys=True,
    ).encode()
    body = b"".join([struct.pack("<Q", len(header)), header, *streams.values()])
    if deflate and len(body) <= _SMALL:
        body = _DEFLATED + zlib.compress(body)
    return _HEAD.pack(MAGIC, FORMAT, len(body), _checksum(FORMAT, body)) + body


def in_cell(name: str, data: bytes) -> pa.Table:
    """Bytes that are the state of something else, as a table of one cell, for `of_cell`."""
    return pa.table({name: pa.array([data], pa.large_binary())})


def of_cell(tables: Mapping[str, pa.Table], table: str, name: str) -> bytes:
    """The bytes in the table of that name, which has this column and nothing else."""
    found = read_table(tables, table)
    kind = pa.binary() if pa.binary() in found.schema.types else pa.large_binary()  # formats up to 6 wrote both
    columns_of(found, table, {name: kind})
    return value(one_row(found, table)[name], name, bytes)


def unpack(blob: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The facts and tables of `pack`; raises SnapshotForeign or SnapshotDamaged."""
    blob = bytes(blob)
    if not blob.startswith(MAGIC):
        raise SnapshotForeign("these bytes are not a Panes snapshot: they don't start with its mark")
    if len(blob) < _HEAD.size:
        raise SnapshotDamaged(f"the snapshot is cut: {len(blob)} bytes, its head alone has {_HEAD.size}")
    _, version, length, checksum = _HEAD.unpack_from(blob)
    body = blob[_HEAD.size :]
    if not OLDEST <= version <= FORMAT:
        raise SnapshotForeign(
            f"the snapshot has format {version}, this version of Panes reads formats {OLDEST} to {FORMAT}; "
            "restore it with the version that wrote it"
        )
    if len(body) != length:
        raise SnapshotDamaged(f"the snapshot is cut or padded: {len(body)} bytes where {length} were written")
    if _checksum(version, body) != checksum:
        raise SnapshotDamaged("the snapshot was altered: its checksum does not fit its content")
    with reading("the snapshot"):
        return _parted(body)


def _parted(body: bytes) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The parts of a body: whoever wrote a checksum that fits may have written anything."""
    if body.startswith(_DEFLATED):
        body = zlib.decompressobj().decompress(body[8:], _SMALL)  # of what is more, some tables are missing
    if len(body) < 8:
        raise SnapshotDamaged("the snapshot has no header")
    (header_size,) = struct.unpack_from("<Q", body)
    if header_size > len(body) - 8:
        raise SnapshotDamaged(f"the header should have {header_size} bytes, more than there are")
    header = json.loads(body[8 : 8 + header_size])
    facts, sizes = fact(header, "facts", dict), fact(header, "tables", list)
    tables: dict[str, pa.Table] = {}
    at = 8 + header_size
    for name, size in sizes:
        if value(name, "the name of a table", str) in tables:
            raise SnapshotDamaged(f"the table {name!r} is there twice")
        at += value(size, "the size of a table", int, low=0, high=len(body) - at)
        tables[name] = _read(body[at - size : at])
    if at != len(body):
        raise SnapshotDamaged(f"the snapshot has {len(body) - at} bytes that belong to no table")
    return facts, tables


def _checksum(version: int, body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32, person=struct.pack("<I", version)).digest()


def _write(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _read(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        table = reader.read_all()
    # columns without bytes can claim any length; no table of ours has fewer than a bit for a row
    if table.num_rows > 8 * len(data):
        raise SnapshotDamaged(f"a table of {len(data)} bytes claims to have {table.num_rows} rows")
    table.validate(full=True)
    return table
