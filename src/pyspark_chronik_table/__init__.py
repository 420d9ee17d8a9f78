"""Where Spark finds format("chronik-table"): it imports top-level modules named `pyspark_*` and takes DefaultSource.

The module's name carries no dash, but the format does: Spark goes by what `DefaultSource.name()` says.
"""

from chronik.pipeline.tables.table import TableSource as DefaultSource

__all__ = ["DefaultSource"]
