"""`chronik materialize`: keeps topics as tables."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from chronik.cli.session import DEFAULTS, DONE, Options, complain
from chronik.cli.sparking import STORAGE, Storage, cluster_of, fails_clearly


@fails_clearly
def materialize(
    *,
    storage: Storage = STORAGE,
    master: Annotated[str | None, Parameter(env_var="SPARK_MASTER")] = None,
    options: Options = DEFAULTS,
) -> int:
    """Keep every topic with chronik.table.enable=true as a table, until Ctrl-C.

    Runs one Spark application for all of them and starts it again when it ends. It runs outside the brokers.

    For example:
      chronik topic alter orders --config chronik.table.enable=true
      chronik materialize --storage /mnt/lake

    Parameters
    ----------
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master: local[2] (default), spark://..., yarn or k8s://...
    """
    from chronik.pipeline.session import require_spark
    from chronik.pipeline.supervisor import Supervisor, start_application

    require_spark()
    cluster = cluster_of(options)
    cluster.topics()  # a cluster that is not there is told before a JVM starts
    folder = storage.absolute()
    Supervisor(lambda: start_application(options.bootstrap, folder, master, cluster.security.file), complain).run()
    return DONE
