"""CQL's words and signs, and its expressions: a sqlglot dialect on top of the one of the Python API.

Only the words below are keywords for sqlglot. All others, engine commands such as PRAGMA or COPY among them,
are plain names that mean nothing unless the grammar asks for them. Below is how expressions, names and words with what
belongs to them are written, of which statements are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from sqlglot import exp
from sqlglot.tokens import TokenType

from panes.plan.dialect import PanesSQL
from panes.plan.functions import ALLOWED_NODES
from panes.plan.trees import writer

_Tokenizer: Any = PanesSQL.Tokenizer
_Parser: Any = PanesSQL.Parser
_Generator: Any = PanesSQL.Generator

#: Words that end an expression or a name wherever they stand; to use one as a name, put it in backquotes.
RESERVED = frozenset(
    """
    select distinct from where having limit as on using
    join cross inner left right full outer
    and or not in between like ilike rlike regexp regex is null true false
    case when then else end
    create insert into merge
    """.upper().split()
)

#: Types that a CAST or a typed literal may name. As names of columns they are free.
_TYPES = """
    BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC
    STRING TEXT VARCHAR CHAR BINARY DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ DATETIME
    """.split()

_WORDS = """
    SELECT DISTINCT FROM WHERE HAVING LIMIT AS ON USING JOIN CROSS INNER LEFT RIGHT FULL OUTER
    AND OR NOT IN BETWEEN LIKE ILIKE RLIKE REGEXP IS NULL TRUE FALSE ESCAPE DIV
    CASE WHEN THEN ELSE END INTERVAL FILTER CREATE INSERT INTO MERGE ASC DESC
    """.split()

_PHRASES = ("GROUP BY", "ORDER BY")
_SIGNS = ("::", "==", "||", ">=", "<=", "<>", "!=", "<=>", "=>")

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_SHIFTS = (exp.BitwiseLeftShift, exp.BitwiseRightShift)
#: Operators on bits, and of text, from the ones that bind tightest, as in Spark SQL.
BITWISE: tuple[tuple[type[exp.Expr], ...], ...] = (
    (exp.DPipe,),
    _SHIFTS,
    (exp.BitwiseAnd,),
    (exp.BitwiseXor,),
    (exp.BitwiseOr,),
)

#: What an expression may hold when it leaves the parser. Which functions there are is for `resolve` to say.
SYNTAX = ALLOWED_NODES | {
    *_SHIFTS,
    exp.Anonymous,
    exp.Star,
    exp.Distinct,
    exp.Filter,
    exp.Where,
    exp.IgnoreNulls,
    exp.WithinGroup,
    exp.Ordered,
}


class Cql(PanesSQL):
    """Spark SQL expressions inside of CQL statements."""

    IDENTIFIERS_CAN_START_WITH_DIGIT = False

    class Tokenizer(_Tokenizer):
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{word: _Tokenizer.KEYWORDS[word] for word in (*_WORDS, *_PHRASES, *_TYPES, *_SIGNS)},
            "REGEX": TokenType.RLIKE,
        }
        COMMANDS: ClassVar[set[TokenType]] = set()
        # "it''s" as in the SQL standard, "it\'s" as in Spark
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        # "10s" is ten seconds, not a SMALLINT
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}
        HEX_STRINGS: ClassVar[list[Any]] = []
        RAW_STRINGS: ClassVar[list[Any]] = []
        BIT_STRINGS: ClassVar[list[Any]] = []
        NESTED_COMMENTS = False

    class Parser(_Parser):
        def _parse_at_time_zone(self, this: Any) -> Any:
            # it belongs to windows here; expressions have no zones
            return this

    class Generator(_Generator):
        """Writes expressions so that they read back as the same tree."""

        TYPE_MAPPING: ClassVar[dict[Any, str]] = {**_Generator.TYPE_MAPPING, exp.DType.DATETIME: "DATETIME"}
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **_Generator.TRANSFORMS,
            exp.BitwiseLeftShift: lambda self, node: self.binary(node, "<<"),
            exp.BitwiseRightShift: lambda self, node: self.binary(node, ">>"),
        }

        def datatype_sql(self, expression: exp.DataType) -> str:
            return "CHAR" if expression.this == exp.DType.CHAR else str(super().datatype_sql(expression))

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            # CAST is a TryCast in Spark's grammar, so what is left are literals with a type before them
            if type(expression) is exp.Cast and isinstance(expression.this, exp.Literal):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            return str(super().cast_sql(expression, safe_prefix=safe_prefix))


# sqlglot adds the comments of a template language to every dialect
Cql.Tokenizer._COMMENTS.pop("{#", None)


#: A scalar expression as CQL writes it.
expression_text = writer(Cql, normalize_functions="lower")


class Writable(Protocol):
    """A part of a statement."""

    def cql(self) -> str:
        """The part as CQL on one line."""


Part = exp.Expr | Writable


def part_text(part: Part) -> str:
    """A part of a statement as CQL on one line."""
    return expression_text(part) if isinstance(part, exp.Expr) else part.cql()


def name_text(name: str) -> str:
    """A name, in quotes where it must be."""
    plain = _PLAIN.match(name) and name.upper() not in RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


def joined(*parts: str) -> str:
    """Parts with spaces between them; those that are empty are left out."""
    return " ".join(part for part in parts if part)


def worded(word: str, part: Part | tuple[Part, ...] | None) -> str:
    """A word and what belongs to it, or nothing."""
    if part is None or part == ():
        return ""
    return f"{word} {listed(part) if isinstance(part, tuple) else part_text(part)}"


def listed(parts: Iterable[Part]) -> str:
    return ", ".join(map(part_text, parts))


def quoted(*texts: str | None) -> str:
    """Text in quotes, with commas between several; None is left out."""
    literals = (exp.Literal.string(text) for text in texts if text is not None)
    return ", ".join(map(expression_text, literals))
