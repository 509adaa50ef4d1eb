"""Calls to an operator: they take turns, and each is all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TypeVar

from panes.errors import OperatorClosed
from panes.state.journal import Journal

T = TypeVar("T")


class Calls:
    """A call that raises changes nothing: what it did is taken back by the journal.

    Batches after which nothing can be due, and which can't fail, spare themselves the journal; if one is interrupted
    (`halfway`), the operator can't be trusted any more.
    """

    __slots__ = ("broken", "halfway", "journal", "turn")

    def __init__(self) -> None:
        self.turn = RLock()
        self.journal = Journal()
        #: something is being changed that nobody could take back
        self.halfway = False
        self.broken = False

    @property
    def blocked(self) -> bool:
        return self.broken or self.journal.is_open

    def check(self, call: str, *, finished: bool) -> None:
        """OperatorClosed, if this call can't be made now."""
        if self.broken:
            raise OperatorClosed(
                f"{call}: an earlier call was interrupted halfway, so what the operator holds can't be trusted; "
                "go on with query.operator(restore=...) from a snapshot"
            )
        if self.journal.is_open:
            raise OperatorClosed(
                f"{call}: the operator is in the middle of a call; user code that it runs can't call it"
            )
        if finished:
            raise OperatorClosed(f"{call} after finish: the stream has ended; make a new operator")

    def all_or_nothing(self, work: Callable[..., T], *arguments: object) -> T:
        """What `work` gives; if it fails, everything is as before."""
        self.halfway = False
        try:
            found = work(*arguments)
        except BaseException:
            self.take_back()
            raise
        self.journal.commit()
        return found

    def take_back(self) -> None:
        """Everything is as it was before the call."""
        if self.journal.is_open:
            self.broken = True  # as long as not all of it is taken back
            self.journal.rewind()
            self.broken = False
        elif self.halfway:
            self.broken = True
