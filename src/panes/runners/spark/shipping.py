"""A query on its way to Spark's workers, with the classes of a script or notebook that it is made of.

Such classes travel by value, since workers can't import them. Snapshots name the classes of users' objects, so in a
worker they are put where their name is looked up.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from pyspark import cloudpickle

_MAIN = "__main__"


class _Noting(cloudpickle.Pickler):
    """Pickles, and notes the classes of the program that is run."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: dict[str, type] = {}

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ == _MAIN and obj.__qualname__ == obj.__name__:
            self.classes[obj.__name__] = obj
        return super().reducer_override(obj)


def packed(value: Any) -> bytes:
    """Anything as bytes, for a process that may not have the same modules."""
    file = io.BytesIO()
    noting = _Noting(file)
    noting.dump(value)
    return bytes(cloudpickle.dumps((noting.classes, file.getvalue())))


def unpacked(data: bytes) -> Any:
    """What was packed; its classes can be pickled by name from here on."""
    classes, value = pickle.loads(data)
    for name, found in classes.items():
        setattr(sys.modules[_MAIN], name, found)
    return pickle.loads(value)
