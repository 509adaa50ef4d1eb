"""`panes sql`: a shell for CQL, for people at a terminal and for programs that pipe statements in.

Statements and backslash commands are answered one after the other. Statements go to a session; what they come to is
printed on stdout, errors on stderr. Nothing that goes wrong with a statement, and no Ctrl-C, ends the shell.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from panes.cli.delivery import Delivery, ProgramQuery
from panes.cli.engine import Engine, Runner
from panes.cli.programs import FAILED, Program, reported
from panes.cli.reading import LineReader
from panes.cli.run import print_answer
from panes.cli.shell_help import COMMANDS, help_text
from panes.errors import PanesError

if TYPE_CHECKING:
    from panes.cql.parse import Located
    from panes.cql.session import Session


class InputReader(Protocol):
    def read(self) -> str | None:
        """The next statements or command; None at the end. Raises KeyboardInterrupt where Ctrl-C drops a line."""


class Shell:
    """What is known between statements."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._delivery = Delivery(engine)
        self._session: Session | None = None
        self._queries = 0
        self._open_files: list[str] = []
        self.timing = False
        self.left = False

    def session(self) -> Session:
        """The session; on Spark it starts with the first statement, not before."""
        if self._session is None:
            self._session = self._engine.session()
        return self._session

    def talk(self, reader: InputReader, *, interactive: bool) -> bool:
        """Read and answer until the end; whether anything failed."""
        if interactive:
            from importlib.metadata import version

            typer.echo(f"Panes {version('panes')}. Statements end with ; and \\h helps, \\q leaves.")
        failed = False
        while not self.left:
            try:
                text = reader.read()
            except KeyboardInterrupt:
                continue
            if text is None:
                break
            try:
                with repeated_interrupts():
                    failed = not self.answer(text) or failed
            except KeyboardInterrupt:
                if not interactive:
                    raise
                typer.echo("stopped", err=True)
        return failed

    def answer(self, text: str) -> bool:
        """Carry out what was typed; whether all of it could be."""
        if text.lstrip().startswith("\\"):
            return self._reported(lambda: self._command(text.strip()))
        return self._run(text)

    def _reported(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (PanesError, OSError) as error:
            typer.echo(str(error), err=True)
            return False
        return True

    def _run(self, text: str) -> bool:
        """Statements up to the first that can't be read or carried out."""
        from panes.cql.parse import parse_all

        statements, errors = parse_all(text)
        first = min((e.span.start if e.span else 0 for e in errors), default=len(text))
        for located in statements:
            if located.span.start < first and not self._reported(partial(self._statement, located)):
                return False
        for error in errors:
            typer.echo(str(error), err=True)
        return not errors

    def _statement(self, located: Located) -> None:
        from panes.cql.session import Notice, QueryRows

        began = perf_counter()
        answer = self.session().execute(located)
        if isinstance(answer, Notice):
            typer.echo(answer.text)
        elif isinstance(answer, QueryRows):
            self._queries += 1
            (count,) = self._delivery.run([ProgramQuery(answer, self._queries)])
            if answer.sink != "file":
                typer.echo(f"({count:,} row{'' if count == 1 else 's'})")
        else:
            print_answer(answer, sys.stdout)
        if self.timing:
            typer.echo(f"{(perf_counter() - began) * 1000:,.1f} ms")

    def _command(self, line: str) -> None:
        from panes.cql.errors import CqlError, did_you_mean

        word, _, rest = line.partition(" ")
        argument = rest.strip().rstrip(";").strip()
        known = {
            "\\d": self._describe,
            "\\h": lambda topic: typer.echo(help_text(topic)),
            "\\?": lambda topic: typer.echo(help_text(topic)),
            "\\i": self._include,
            "\\timing": self._timing,
            "\\q": self._leave,
        }
        found = known.get(word.rstrip(";"))
        if found is None:
            hint = did_you_mean(word, known) or f"there are: {', '.join(dict.fromkeys(c.split()[0] for c in COMMANDS))}"
            raise CqlError(f"there is no command {word}", hints=[hint])
        found(argument)

    def _describe(self, name: str) -> None:
        from panes.cql.session import Table

        if name:
            statements = [f"DESCRIBE {name}"]
        else:
            statements = ["SHOW STREAMS", "SHOW SCHEMAS"]
        for number, statement in enumerate(statements):
            answer = self.session().execute(statement)
            assert isinstance(answer, Table)
            if number:
                typer.echo()
            print_answer(answer, sys.stdout)

    def _include(self, path: str) -> None:
        from pathlib import Path

        from panes.cql.errors import CqlError

        if not path:
            raise CqlError("\\i needs the name of a file", hints=["for instance: \\i app.cql"])
        path = path.strip("'\"")
        if path in self._open_files:
            raise CqlError(f"{path} includes itself")
        program = Program(path, Path(path).expanduser().read_text(encoding="utf-8-sig"))
        self._open_files.append(path)
        try:
            if not self._run(program.text):
                raise CqlError(f"{path}: not all of it was run")
        finally:
            self._open_files.pop()

    def _timing(self, wanted: str) -> None:
        from panes.cql.errors import CqlError

        if wanted not in ("", "on", "off"):
            raise CqlError(f"\\timing {wanted}: it can be on or off")
        self.timing = not self.timing if not wanted else wanted == "on"
        typer.echo(f"timing is {'on' if self.timing else 'off'}")

    def _leave(self, _: str) -> None:
        self.left = True


#: Seconds until an interrupt that nobody has taken note of comes again: time enough to close what is open.
AGAIN = 3.0


@contextmanager
def repeated_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt again and again until the block is left.

    So it is not lost: a library that runs just then may swallow it. DuckDB, for one, looks at signals while it works;
    where its work is done anyway, nobody hears of them.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise KeyboardInterrupt

    before = [(s, signal.signal(s, interrupt)) for s in (signal.SIGINT, signal.SIGALRM)]
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before:
            signal.signal(number, handler)


def sql(
    runner: Annotated[Runner, typer.Option(help="This process, or Spark.")] = Runner.local,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Of Spark: local[2], or a cluster; else all cores here.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where relative paths start; else the current folder.")
    ] = None,
) -> None:
    r"""Type CQL statements and see what they give, as it comes.

    A statement may have many lines; it ends with a semicolon. Streams and schemas are kept until you leave. Tab
    completes keywords, streams, columns and functions; up and down bring back what you typed, also next time.
    Ctrl-C stops the query that runs, or drops what you are typing, but does not end the shell.

    {b}
    In the shell:
        \d          all streams and schemas        \h          help
        \d NAME     the columns of one             \h SELECT   help for a statement
        \i FILE     run the statements of a file   \timing     say how long each takes
        \q          leave; so does Ctrl-D

    {b}
    Examples:
        panes sql
        panes sql --runner spark --master 'local[2]'
        panes sql < app.cql

    Piped statements run one by one. One that has an error does not stop the others, but the exit code is then 1.
    """
    with reported():
        shell = Shell(Engine(runner, folder=folder, master=master))
        interactive = sys.stdin.isatty()
        failed = shell.talk(open_reader(shell.session, interactive), interactive=interactive)
        if failed and not interactive:
            raise typer.Exit(FAILED)


# click keeps the line breaks of a paragraph that begins with this sign, which a raw string can't hold
sql.__doc__ = (sql.__doc__ or "").replace("{b}", "\b")


def open_reader(session: Callable[[], Session], interactive: bool) -> InputReader:
    """For a terminal with history and completion, if prompt_toolkit is there; else line by line."""
    if not interactive:
        return LineReader(sys.stdin, prompts=False)
    try:
        from panes.cli.prompt import PromptReader
    except ModuleNotFoundError as error:
        if error.name != "prompt_toolkit":
            raise
        typer.echo("For history and completion: pip install 'panes[shell]'", err=True)
        return LineReader(sys.stdin, prompts=True)
    return PromptReader(session)
