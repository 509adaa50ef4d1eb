"""Makes a Python data source known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register `source`; a session that knows it already keeps it."""
    if _registered(spark, source):
        return
    # Spark asks the active session whether the name is taken, which another session than this one may be
    sessions: Any = getattr(getattr(spark, "_jvm", None), "SparkSession", None)
    if sessions is not None:
        active = sessions.getActiveSession()
        sessions.setActiveSession(spark._jsparkSession)
        _registered(spark, source)
        if active.isDefined():
            sessions.setActiveSession(active.get())


def _registered(spark: SparkSession, source: type[DataSource]) -> bool:
    """Whether the name was still free."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
        return False
    return True
