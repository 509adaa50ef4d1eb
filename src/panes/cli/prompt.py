"""The prompt of the shell at a terminal: many lines, history, completion, colours. Needs prompt_toolkit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from panes.cli.reading import MORE, PROMPT, is_finished, suggestions

if TYPE_CHECKING:
    from panes.cql.session import Session


def history_file() -> Path:
    """Where statements are remembered: `panes/history` in the folder that the system has for such things."""
    if sys.platform == "win32":
        state = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return state / "panes" / "history"


class PromptReader:
    """Statements and commands as people type them. `options` go to prompt_toolkit, for tests."""

    def __init__(self, session: Callable[[], Session], **options: Any) -> None:
        self._prompt: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: MORE,
            history=_history(),
            completer=NameCompleter(session),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            key_bindings=_keys(),
            lexer=_lexer(),
            **options,
        )

    def read(self) -> str | None:
        try:
            return self._prompt.prompt()
        except EOFError:
            return None


class NameCompleter(Completer):
    def __init__(self, session: Callable[[], Session]) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        for found in suggestions(document.text_before_cursor, self._session):
            yield Completion(found.text, start_position=-found.length, display_meta=found.kind)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: KeyPressEvent) -> None:
        """Runs what is whole; else a new line begins."""
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline(copy_margin=False)

    return keys


def _history() -> History:
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except OSError as error:
        typer.echo(f"What you type won't be remembered: {error}", err=True)
        return InMemoryHistory()
    return FileHistory(str(path))


def _lexer() -> Any:
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    return PygmentsLexer(SqlLexer)
