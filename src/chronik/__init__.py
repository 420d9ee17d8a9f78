"""Chronik: a Kafka-wire-compatible broker cluster with a Raft metadata quorum, and a data pipeline on Spark.

`chronik.read("orders")` gives a table and the newest records of its topic as one frame. Importing this package imports
nothing else.
"""

__version__ = "0.1.0"
__all__ = ["__version__", "read"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chronik.pipeline.unified import read


def __getattr__(name: str) -> object:
    if name == "read":
        from chronik.pipeline.unified import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
