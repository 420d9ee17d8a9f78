"""What commands about pipelines share: a file, a folder, a session, a plan, and one way to fail.

Spark and everything that imports it is imported when a command runs, never when `chronik --help` lists it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar

from cyclopts import Parameter

from chronik.cli.errors import CommandError, CommandFailed, NoBroker

if TYPE_CHECKING:
    from chronik.cli.session import Options
    from chronik.pipeline.flows import Flow
    from chronik.pipeline.live_cluster import LiveCluster
    from chronik.pipeline.plan import Plan
    from chronik.pipeline.security import QuerySecurity

P = ParamSpec("P")
R = TypeVar("R")

Storage = Annotated[Path, Parameter(env_var="CHRONIK_STORAGE")]
STORAGE: Final = Path("chronik-storage")


def fails_clearly(command: Callable[P, R]) -> Callable[P, R]:
    """A condition of a pipeline, or a cluster that says no, ends a command with its sentence and nothing else."""

    @functools.wraps(command)
    def run(*words: P.args, **options: P.kwargs) -> R:
        from chronik.client.errors import ClientError, Unreachable
        from chronik.pipeline.conditions import PipelineFault
        from chronik.pipeline.errors import PipelineError

        try:
            return command(*words, **options)
        except PipelineFault as error:
            if error.condition == "FILE_FAILED" and find_spec("pyspark") is None:
                raise CommandFailed(PipelineFault("SPARK_MISSING").sentence) from error
            kind: type[CommandError] = NoBroker if error.condition == "BROKER_NOT_REACHED" else CommandFailed
            raise kind(error.sentence) from error
        except PipelineError as error:
            raise CommandFailed(str(error)) from error
        except Unreachable as error:
            raise NoBroker(str(error)) from error
        except ClientError as error:
            raise CommandFailed(str(error)) from error

    return run


def cluster_of(options: Options, command_config: str = "") -> LiveCluster:
    """`command_config` is the file that a pipeline names; --command-config comes before it."""
    from chronik.pipeline.live_cluster import LiveCluster

    return LiveCluster(options.bootstrap, security_of(options, command_config))


def security_of(options: Options, command_config: str = "") -> QuerySecurity:
    from chronik.pipeline.security import NO_QUERY_SECURITY, security_in

    options.security()  # complains about --command-config as every command does
    file = str(options.command_config or command_config)
    return security_in(file) if file else NO_QUERY_SECURITY


@contextmanager
def planned(file: Path, storage: Path, master: str | None, options: Options) -> Iterator[tuple[Any, Plan]]:
    """A session and the plan of a file on it. What is wrong without Spark is told without starting it."""
    from chronik.pipeline.plan import dry_run
    from chronik.pipeline.registry import load
    from chronik.pipeline.session import require_spark, spark_session
    from chronik.pipeline.storage import Storage as Places

    pipeline = load(file)
    require_spark()
    cluster, places = cluster_of(options, pipeline.command_config), Places(storage)
    plan = dry_run(pipeline, cluster=cluster, storage=places, master=master or "")
    if plan.errors:
        yield None, plan
        return
    spark = spark_session(pipeline.name, master)
    from chronik.pipeline.frames import EmptyFrames

    yield spark, dry_run(pipeline, cluster=cluster, storage=places, frames=EmptyFrames(spark), master=master or "")


def flow_named(plan: Plan, name: str) -> Flow:
    from chronik.pipeline.conditions import PipelineFault, nearest

    for planned_flow in plan.flows:
        if planned_flow.flow.name == name:
            return planned_flow.flow
    known = [planned_flow.flow.name for planned_flow in plan.flows]
    raise PipelineFault("FLOW_NOT_FOUND", name=name, nearest=nearest(name, known))
