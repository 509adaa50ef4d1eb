"""Every error that Panes raises on purpose.

PanesError
├── QueryError          the query can't be built: names the argument, the rule and the reason
│   ├── ExpressionError the SQL text of an expression can't be used
│   │   └── WrongType       an expression of values that go together by no rule; says which piece, and their types
│   └── NoSuchMethod    a method that streams and queries don't have; says what to write instead
├── DataError           a batch can't be read as the stream's schema says
├── SnapshotError       bytes that are not a snapshot of this query
│   ├── SnapshotDamaged     truncated or altered bytes
│   ├── SnapshotForeign     not a Panes snapshot, or of a format this version can't read
│   ├── SnapshotMismatch    a sound snapshot of another query; says what differs
│   └── SnapshotUntrusted   pickles of users' own code, in bytes that nobody called trusted
├── UserCodeError       a user's aggregate, window, policy or operator has raised an exception, which is the cause
└── OperatorClosed      push or advance after finish
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, Protocol


class PanesError(Exception):
    """Base of all errors raised by Panes."""


class QueryError(PanesError, ValueError):
    """A query that can't be built, or an argument that breaks a rule."""


class ExpressionError(QueryError):
    """SQL text that can't be parsed, resolved or allowed.

    `said` is what is wrong, text and types in turn, so that each language can name types as its users do (`told`);
    `piece` is the part of the expression that it is about, if it is known: a tree of sqlglot's; `hint` is what would be
    right. `before` and `after` name the piece, and give the hint, for those who don't see them under the text.

    >>> wrong = ExpressionError("there is no operator + for ", int, " and ", str, before="a + b: ")
    >>> wrong.told(lambda kind: kind.__name__.upper())
    'there is no operator + for INT and STR'
    """

    def __init__(self, *said: object, piece: object = None, before: str = "", after: str = "", hint: str = "") -> None:
        self.said = said
        self.piece = piece
        self.hint = hint
        super().__init__(f"{before}{self.told(_type_name)}{after}")

    def told(self, name: Callable[[Any], str]) -> str:
        """What is wrong, with types by the names that a function gives them."""
        return "".join(part if isinstance(part, str) else name(part) for part in self.said)


class WrongType(ExpressionError):
    """Values of types that an operator, a function, an aggregate or a clause does not take."""


def _type_name(kind: object) -> str:
    """Arrow's name of a type; that of intervals lists what they are made of."""
    return str(kind).replace("month_day_nano_interval", "interval")


class NoSuchMethod(QueryError, AttributeError):
    """A method or attribute that is not there; where others have it, what to write here."""


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


class SnapshotUntrusted(SnapshotError):
    """The bytes hold pickles, which run code when they are read, and nobody has said that they are to be trusted."""


class UserCodeError(PanesError, RuntimeError):
    """Code that a user wrote has raised an exception, which is the cause of this one.

    The message begins with the label of the aggregate or window, or the name of the operator, and the call.
    """


class HasUserCode(Protocol):
    """Whatever calls code of users: an aggregate, a window, a policy, an operator."""

    @property
    def user_code(self) -> str:
        """What it is, as messages begin: the label that the user gave it, and the object."""
        ...


class calling:
    """Around calls of code that a user wrote: an exception becomes a `UserCodeError` that says where, and of what.

    `arguments` are those of the call; set them where one block is around many calls.
    """

    __slots__ = ("_method", "_owner", "arguments")

    def __init__(self, owner: HasUserCode, method: str, arguments: Iterable[Any] = ()) -> None:
        self._owner = owner
        self._method = method
        self.arguments = arguments

    def __enter__(self) -> calling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, PanesError):
            raise_named(error, self._owner, self._method, self.arguments)


def raise_named(error: Exception, owner: HasUserCode, method: str, arguments: Iterable[Any] = ()) -> NoReturn:
    """What `calling` does, for calls so many that nothing may be around each but a `try`."""
    if isinstance(error, PanesError):
        raise error
    call = f"{owner.user_code}.{method}({', '.join(map(_short.repr, arguments))})"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    raise UserCodeError(f"{call} raised {said}") from error


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Has what user code inside raises begin with a name that the code around it knows."""
    try:
        yield
    except UserCodeError as error:
        if not where:
            raise
        raise UserCodeError(f"{where}: {error}") from error.__cause__


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxdict = 12


class OperatorClosed(PanesError, RuntimeError):
    """The operator has finished and takes no more input."""
