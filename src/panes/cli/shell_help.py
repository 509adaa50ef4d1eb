r"""What `\h` says in the shell: commands, and the statements of the language with examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

COMMANDS = {
    "\\d": "all streams and schemas",
    "\\d NAME": "the columns of a stream or schema",
    "\\h": "this help",
    "\\h TOPIC": "help for a statement or topic",
    "\\i FILE": "run the statements of a file",
    "\\timing": "say how long statements take, or no longer",
    "\\q": "leave; so does Ctrl-D",
}


@dataclass(frozen=True)
class Topic:
    """How something is written, and examples that could be typed."""

    about: str
    grammar: str
    examples: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.about, "", *_indented(self.grammar), "", "For instance", "", *self._examples()])

    def _examples(self) -> list[str]:
        return [f"  {example};" for example in self.examples]


TOPICS = {
    "CREATE STREAM": Topic(
        "A stream: its columns, where its rows come from, how much disorder to wait for, and what silence means.",
        """CREATE STREAM name (column TYPE, ...) | schema
    SOURCE FILE ('path or pattern' [, 'delimiter']) | SOCKET ('host', port) | STREAM ('name')
    | AS SELECT ... | AS MERGE ...
    [WATERMARK length ON column] [LATENESS length] [IDLE length] [TIMEOUT length]""",
        (
            "CREATE STREAM trades (symbol STRING, price DOUBLE, ts TIMESTAMP) SOURCE FILE ('trades/*.csv') "
            "WATERMARK 2 sec ON ts",
            "CREATE STREAM large AS SELECT symbol, price, ts FROM trades WHERE price > 100",
        ),
    ),
    "CREATE SCHEMA": Topic(
        "Columns under a name, for several streams.",
        "CREATE SCHEMA name (column TYPE, ...) [EXTENDS other]",
        ("CREATE SCHEMA tick (symbol STRING, price DOUBLE, ts TIMESTAMP)",),
    ),
    "SELECT": Topic(
        "A query. Aggregates need a window (\\h WINDOWS); GROUP BY keeps windows apart.",
        """SELECT entries FROM stream [window] ... | (SELECT ...) | join
    [WHERE ...] [GROUP BY ...] [HAVING ...] [ORDER BY ...] [LIMIT n] [EVALUATE TUPLE | TIME | BATCH DRIVEN]""",
        (
            "SELECT symbol, avg(price) AS mean FROM trades [SIZE 10 min EVERY 1 min ON ts] GROUP BY symbol",
            "SELECT symbol, price * 2 AS double FROM trades WHERE price BETWEEN 10 AND 20",
        ),
    ),
    "WINDOWS": Topic(
        "Windows stand in brackets behind a stream; several may stand side by side, each AS a label.",
        """[SIZE n | n unit | n unit ON column  EVERY ...]   so many rows, or so long; a new one every so often
[SESSION gap ON column]                            until nothing comes for a while
[CUMULATE step MAX length ON column]               growing
[LANDMARK start EVERY ... ON column]               from a moment on
[FIXED start TO end ON column]                     one stretch
[DELTA d ON value]   [THRESHOLD condition]   [PUNCTUATED BEGIN condition UNTIL condition]
Behind that: OFFSET length, AT TIME ZONE 'zone', ALIGN START | END, ON CHANGE, PARTITIONED BY columns, WHERE condition,
AS label""",
        (
            "SELECT count(*) AS n FROM trades [SIZE 100 EVERY 10]",
            "SELECT symbol, count(*) AS n FROM trades [SESSION 30 sec ON ts] GROUP BY symbol",
            "SELECT window, max(price) AS high FROM trades [SIZE 1 min ON ts AS bar] [SIZE 1 hour ON ts AS hour]",
        ),
    ),
    "JOIN": Topic(
        "Rows of two streams that are in the same window.",
        "left [window] AS a [INNER | LEFT | RIGHT | FULL] JOIN right [window] AS b ON ... | USING (columns)",
        (
            "SELECT a.symbol, a.price, b.qty FROM trades [SIZE 1 min ON ts] AS a "
            "JOIN orders [SIZE 1 min ON ts] AS b ON a.symbol = b.symbol",
        ),
    ),
    "INSERT": Topic(
        "What a query gives: into a stream that has no source yet, into a file, or onto the screen.",
        "INSERT INTO stream | FILE ('path.csv | .json | .parquet') | CONSOLE SELECT ... | MERGE ...",
        (
            "INSERT INTO FILE ('high.parquet') SELECT symbol, max(price) AS high FROM trades [SIZE 1 hour ON ts] "
            "GROUP BY symbol",
        ),
    ),
    "ON": Topic(
        "Rows of one stream, each to those streams whose condition it meets. In the shell an empty line ends it.",
        "ON stream INSERT INTO a SELECT ... WHERE ...; INSERT INTO b SELECT ... WHERE ...",
        ("ON trades INSERT INTO large SELECT * WHERE price > 100; INSERT INTO small SELECT * WHERE price <= 100",),
    ),
    "MERGE": Topic("The rows of several streams as one.", "MERGE stream, stream, ...", ("MERGE large, small",)),
    "EXPLAIN": Topic(
        "What a statement becomes, without running it.",
        "EXPLAIN [PARSE | REWRITE | RESOLVE | COMPILE] statement",
        ("EXPLAIN SELECT count(*) AS n FROM trades [SIZE 1 min ON ts]",),
    ),
    "SHOW": Topic("What there is.", "SHOW STREAMS | SCHEMAS | QUERIES", ("SHOW STREAMS",)),
    "DESCRIBE": Topic("The columns of a stream or schema.", "DESCRIBE name", ("DESCRIBE trades",)),
    "DROP": Topic("Forget something.", "DROP STREAM | SCHEMA | QUERY name", ("DROP STREAM trades",)),
}


def help_text(topic: str = "") -> str:
    """Help for a topic, or which there are."""
    from panes.cql.errors import CqlError, did_you_mean

    if not topic:
        return _overview()
    name = " ".join(topic.upper().split())
    if name == "FUNCTIONS":
        return _functions()
    found = [key for key in TOPICS if key == name] or [key for key in TOPICS if key.startswith(name)]
    if not found:
        known = [*TOPICS, "FUNCTIONS"]
        raise CqlError(
            f"there is no help for {topic}", hints=[did_you_mean(topic, known) or f"there is: {', '.join(known)}"]
        )
    return "\n\n".join(str(TOPICS[key]) for key in found)


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = ["Commands"]
    lines += [f"  {command:<{width}}  {about}" for command, about in COMMANDS.items()]
    lines += ["", "Statements end with ; and may have many lines. Help: \\h and one of"]
    return "\n".join([*lines, f"  {', '.join([*TOPICS, 'FUNCTIONS'])}"])


def _functions() -> str:
    import textwrap

    from panes.aggregates.registry import names
    from panes.plan.functions import SCALAR_FUNCTIONS

    def listed(words: Iterable[str]) -> str:
        return textwrap.fill(" ".join(sorted(words)), 100, initial_indent="  ", subsequent_indent="  ")

    return (
        f"Aggregates, over the rows of a window\n{listed(names())}\n\nFunctions of one row\n{listed(SCALAR_FUNCTIONS)}"
    )


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]
