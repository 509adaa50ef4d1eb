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
        any_value,
        approx_count_distinct,
        arg_max,
        arg_min,
        avg,
        bit_and,
        bit_or,
        bit_xor,
        bool_and,
        bool_or,
        collect_list,
        collect_set,
        corr,
        count,
        count_distinct,
        count_if,
        covar_pop,
        covar_samp,
        first,
        geometric_mean,
        histogram_numeric,
        kurtosis,
        last,
        m4,
        max,
        max_count,
        median,
        min,
        min_count,
        mode,
        percentile_approx,
        product,
        quantile,
        quantiles,
        range,
        regr,
        skewness,
        stddev,
        string_agg,
        sum,
        try_avg,
        try_sum,
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
        WindowDue,
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
    "WindowDue",
    "WindowEvents",
    "__version__",
    "aggregate",
    "any_value",
    "approx_count_distinct",
    "arg_max",
    "arg_min",
    "arrival",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
    "corr",
    "count",
    "count_distinct",
    "count_if",
    "covar_pop",
    "covar_samp",
    "cumulate",
    "delta",
    "errors",
    "first",
    "fixed",
    "fixed_band",
    "geometric_mean",
    "histogram_numeric",
    "join",
    "kurtosis",
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
    "percentile_approx",
    "policies",
    "policy",
    "product",
    "progress",
    "punctuated",
    "quantile",
    "quantiles",
    "range",
    "regr",
    "replay",
    "rows",
    "session",
    "skewness",
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
    "try_avg",
    "try_sum",
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
            "WindowDue",
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
