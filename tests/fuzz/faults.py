"""How an exception is told."""

from __future__ import annotations


def exception_text(error: Exception) -> str:
    """An exception and the line that raised it."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f"{where.tb_frame.f_code.co_filename.rsplit('/', 2)[-1]}:{where.tb_lineno}" if where else "?"
    return f"{type(error).__name__} at {place}: {error}"
