"""What is computed over windows: lift rows to partials, combine partials, lower them to results.

`base.py` is the protocol, `functions.py` and `statistics.py` are the constructors that users write, together the
table of `registry.py`; one module per family computes.
"""

from __future__ import annotations

from panes.aggregates import functions, statistics

# each constructor is the one entry of its aggregate: a name said here again would be a second one
from panes.aggregates.functions import *  # noqa: F403
from panes.aggregates.statistics import *  # noqa: F403
from panes.aggregates.user import UserAggregate, aggregate

__all__ = ["UserAggregate", "aggregate"]
__all__ += functions.__all__
__all__ += statistics.__all__
