"""A fake clock that other processes can see, those of Spark for instance."""

from __future__ import annotations

import os
from pathlib import Path

from panes.clock import FakeClock


class FileClock(FakeClock):
    """A `FakeClock` whose time stands in a file: for `pn.stream(streaming_frame, idle=..., clock=...)`."""

    def __init__(self, path: str | os.PathLike[str], start: int = 0) -> None:
        super().__init__(start)
        self.path = Path(path)
        self._write()

    def advance_to(self, moment: int) -> None:
        super().advance_to(moment)
        self._write()

    def _write(self) -> None:
        # whoever reads meanwhile sees the one time or the other
        new = self.path.with_suffix(".new")
        new.write_text(str(self.now()))
        new.replace(self.path)
