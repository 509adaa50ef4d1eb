"""What holds for all tests."""

from __future__ import annotations

import os
from pathlib import Path

# Spark's workers import what tests define, from whatever folder the first test that starts Spark does so.
ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
