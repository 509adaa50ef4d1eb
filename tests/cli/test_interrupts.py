"""An interrupt that a library swallows comes again."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest

from panes.cli import shell

pytestmark = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread"
)


def test_a_swallowed_interrupt_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "AGAIN", 0.05)
    before = signal.getsignal(signal.SIGINT)
    swallowed = []

    def library() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
        swallowed.append(True)
        time.sleep(30)

    with pytest.raises(KeyboardInterrupt), shell.repeated_interrupts():
        library()
    assert swallowed
    assert signal.getsignal(signal.SIGINT) is before
    time.sleep(0.1)  # and not once more behind the block
