"""Windows over streams: any number, any kind, one set of slices.

    import panes as pn

    bars = pn.stream(trades, time="ts", key="symbol").window(bar=pn.tumbling("1 min")).agg(high="max(price)")

All names but `stream` load the module they live in when they are first used, which keeps the import light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not with the others: importing the module panes.stream binds its name here, where the function belongs.
from panes.stream import stream

__version__ = "0.1.0"

if TYPE_CHECKING:
    from panes import errors, operators, policies, testing
    from panes.aggregates import (
        UserAggregate,
        aggregate,
        approx_count_distinct,
        arg_max,
        arg_min,
        avg,
        collect_list,
        count,
        count_distinct,
        first,
        geometric_mean,
        last,
        m4,
        max,
        max_count,
        median,
        min,
        min_count,
        mode,
        product,
        quantile,
        quantiles,
        range,
        stddev,
        string_agg,
        sum,
        variance,
    )
    from panes.composed import merge
    from panes.cql.session import sql
    from panes.joined import join
    from panes.policies.policy import policy
    from panes.runners.local.arrival import arrival
    from panes.runners.local.replay import replay
    from panes.runners.local.sockets import socket_source
    from panes.runners.spark.interchange import spark_snapshot
    from panes.runners.spark.progress import progress, watch
    from panes.runners.spark.session import spark
    from panes.units import rows
    from panes.windows import (
        ContextFreeWindow,
        DeterministicWindow,
        FreeFormWindow,
        WindowEvents,
        cumulate,
        delta,
        fixed,
        fixed_band,
        landmark,
        on_change,
        once_per_instant,
        punctuated,
        session,
        sliding,
        threshold,
        tumbling,
    )

__all__ = [
    "ContextFreeWindow",
    "DeterministicWindow",
    "FreeFormWindow",
    "UserAggregate",
    "WindowEvents",
    "__version__",
    "aggregate",
    "approx_count_distinct",
    "arg_max",
    "arg_min",
    "arrival",
    "avg",
    "collect_list",
    "count",
    "count_distinct",
    "cumulate",
    "delta",
    "errors",
    "first",
    "fixed",
    "fixed_band",
    "geometric_mean",
    "join",
    "landmark",
    "last",
    "m4",
    "max",
    "max_count",
    "median",
    "merge",
    "min",
    "min_count",
    "mode",
    "on_change",
    "once_per_instant",
    "operators",
    "policies",
    "policy",
    "product",
    "progress",
    "punctuated",
    "quantile",
    "quantiles",
    "range",
    "replay",
    "rows",
    "session",
    "sliding",
    "socket_source",
    "spark",
    "spark_snapshot",
    "sql",
    "stddev",
    "stream",
    "string_agg",
    "sum",
    "testing",
    "threshold",
    "tumbling",
    "variance",
    "watch",
]

#: Where to find names that don't live in panes.aggregates; None: the name is itself a module.
_HOMES = {
    "errors": None,
    "testing": None,
    "operators": None,
    "policies": None,
    "policy": "panes.policies.policy",
    "rows": "panes.units",
    "arrival": "panes.runners.local.arrival",
    "join": "panes.joined",
    "merge": "panes.composed",
    "sql": "panes.cql.session",
    "replay": "panes.runners.local.replay",
    "socket_source": "panes.runners.local.sockets",
    "spark": "panes.runners.spark.session",
    "spark_snapshot": "panes.runners.spark.interchange",
    **dict.fromkeys(("progress", "watch"), "panes.runners.spark.progress"),
    **dict.fromkeys(
        (
            "ContextFreeWindow",
            "DeterministicWindow",
            "FreeFormWindow",
            "WindowEvents",
            "cumulate",
            "delta",
            "fixed",
            "fixed_band",
            "landmark",
            "on_change",
            "once_per_instant",
            "punctuated",
            "session",
            "sliding",
            "threshold",
            "tumbling",
        ),
        "panes.windows",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'panes' has no attribute {name!r}")
    home = _HOMES.get(name, "panes.aggregates")
    value = import_module(f"panes.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
