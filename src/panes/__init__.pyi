"""The public names, said once: where each of them lives. `__init__.py` loads them from here when they are used."""

from panes import errors as errors, operators as operators, policies as policies, testing as testing
from panes.aggregates import *
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
