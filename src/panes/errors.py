"""Every error that Panes raises on purpose.

PanesError
├── QueryError          the query can't be built: names the argument, the rule and the reason
│   └── ExpressionError the SQL text of an expression can't be used
├── DataError           a batch can't be read as the stream's schema says
├── SnapshotError       bytes that are not a snapshot of this query
│   ├── SnapshotDamaged     truncated or altered bytes
│   ├── SnapshotForeign     not a Panes snapshot, or of a format this version can't read
│   └── SnapshotMismatch    a sound snapshot of another query; says what differs
└── OperatorClosed      push or advance after finish
"""

from __future__ import annotations


class PanesError(Exception):
    """Base of all errors raised by Panes."""


class QueryError(PanesError, ValueError):
    """A query that can't be built, or an argument that breaks a rule."""


class ExpressionError(QueryError):
    """SQL text that can't be parsed, resolved or allowed."""


class DataError(PanesError, ValueError):
    """A batch that does not fit the stream's schema."""


class SnapshotError(PanesError):
    """Bytes that can't be restored into this query."""


class SnapshotDamaged(SnapshotError):
    """The bytes were cut or altered since the snapshot was written."""


class SnapshotForeign(SnapshotError):
    """The bytes are no Panes snapshot, or of a format this version does not read."""


class SnapshotMismatch(SnapshotError):
    """A sound snapshot that belongs to another query."""


class OperatorClosed(PanesError, RuntimeError):
    """The operator has finished and takes no more input."""
