"""Ctrl-C that is not lost: a library that runs just then may swallow the interrupt, so it is repeated.

DuckDB, for one, looks at signals while it works; where its work is done anyway, nobody hears of them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Seconds until an interrupt that nobody has taken note of comes again: time enough to close what is open.
AGAIN = 3.0


@contextmanager
def repeated_interrupts() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt again and again until the block is left."""
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
