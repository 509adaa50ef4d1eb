"""The public names, said once: where each of them lives. `__init__.py` loads them from here when they are used."""

from panes import errors as errors, operators as operators, policies as policies, testing as testing
from panes.aggregates import (
    UserAggregate as UserAggregate,
    aggregate as aggregate,
    any_value as any_value,
    approx_count_distinct as approx_count_distinct,
    arg_max as arg_max,
    arg_min as arg_min,
    avg as avg,
    bit_and as bit_and,
    bit_or as bit_or,
    bit_xor as bit_xor,
    bool_and as bool_and,
    bool_or as bool_or,
    collect_list as collect_list,
    collect_set as collect_set,
    corr as corr,
    count as count,
    count_distinct as count_distinct,
    count_if as count_if,
    covar_pop as covar_pop,
    covar_samp as covar_samp,
    first as first,
    geometric_mean as geometric_mean,
    histogram_numeric as histogram_numeric,
    kurtosis as kurtosis,
    last as last,
    m4 as m4,
    max as max,
    max_count as max_count,
    median as median,
    min as min,
    min_count as min_count,
    mode as mode,
    percentile_approx as percentile_approx,
    product as product,
    quantile as quantile,
    quantiles as quantiles,
    range as range,
    regr as regr,
    skewness as skewness,
    stddev as stddev,
    string_agg as string_agg,
    sum as sum,
    try_avg as try_avg,
    try_sum as try_sum,
    variance as variance,
)
from panes.api.together import join as join, merge as merge
from panes.api.sources import replay as replay, socket_source as socket_source
from panes.api.stream import stream as stream
from panes.cql.session import sql as sql
from panes.plan.arrival import arrival as arrival
from panes.policies.policy import policy as policy
from panes.runners.spark.interchange import spark_snapshot as spark_snapshot
from panes.runners.spark.progress import progress as progress, watch as watch
from panes.runners.spark.session import spark as spark
from panes.units import rows as rows
from panes.windows import (
    ContextFreeWindow as ContextFreeWindow,
    DeterministicWindow as DeterministicWindow,
    FreeFormWindow as FreeFormWindow,
    WindowDue as WindowDue,
    WindowEvents as WindowEvents,
    cumulate as cumulate,
    delta as delta,
    fixed as fixed,
    fixed_band as fixed_band,
    landmark as landmark,
    on_change as on_change,
    once_per_instant as once_per_instant,
    punctuated as punctuated,
    session as session,
    sliding as sliding,
    threshold as threshold,
    tumbling as tumbling,
)

__version__: str
