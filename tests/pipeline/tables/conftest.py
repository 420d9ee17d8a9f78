"""Tests of tables need the extra `spark`, as all of the pipeline's do; `make test` installs it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if find_spec("deltalake") is None or find_spec("pyarrow") is None:
    collect_ignore_glob += ["test_*.py"]
elif find_spec("pyspark") is None:
    collect_ignore_glob += ["test_spark_*.py"]
