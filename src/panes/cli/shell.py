r"""The loop of `panes sql`: statements and backslash commands, one after the other.

Statements go to a session; what they come to is printed on stdout, errors on stderr. Nothing that goes wrong with
a statement, and no Ctrl-C, ends the shell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import typer

from panes.cli.delivery import Delivery, Job
from panes.cli.engine import Engine
from panes.cli.interrupts import repeated_interrupts
from panes.cli.programs import Program
from panes.cli.run import print_answer
from panes.cli.shell_help import COMMANDS, help_text
from panes.errors import PanesError

if TYPE_CHECKING:
    from panes.cql.parse import Located
    from panes.cql.session import Session


class Reader(Protocol):
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

    def talk(self, reader: Reader, *, interactive: bool) -> bool:
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

    # --- statements ---

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
        from panes.cql.session import Rows, Said

        began = perf_counter()
        answer = self.session().execute(located)
        if isinstance(answer, Said):
            typer.echo(answer.text)
        elif isinstance(answer, Rows):
            self._queries += 1
            (count,) = self._delivery.run([Job(answer, self._queries)])
            if answer.sink != "file":
                typer.echo(f"({count:,} row{'' if count == 1 else 's'})")
        else:
            print_answer(answer, sys.stdout)
        if self.timing:
            typer.echo(f"{(perf_counter() - began) * 1000:,.1f} ms")

    # --- commands ---

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
