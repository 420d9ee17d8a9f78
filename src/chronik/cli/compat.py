"""`chronik compat`: which of Kafka's APIs this release serves, in which versions, straight from the handlers.

What is printed cannot differ from what a broker advertises: both are read from the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.cli.output import Column, Row, print_rows
from chronik.cli.session import DEFAULTS, Options, run

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

COLUMNS = (
    Column("key", "KEY", is_number=True),
    Column("api", "API"),
    Column("versions", "VERSIONS"),
)
PERMISSIONS = (*COLUMNS[:2], Column("needs", "NEEDS"))


def compat(*, live: bool = False, permissions: bool = False, options: Options = DEFAULTS) -> int:
    """List the Kafka APIs that this release serves, with their versions.

    For example:
      chronik compat
      chronik compat --permissions
      chronik compat --format json | jq '.[] | select(.api == "Fetch")'
      chronik compat --live --bootstrap kafka:9092

    Parameters
    ----------
    live
        Compare with the broker at --bootstrap; any Kafka broker works.
    permissions
        Show which permissions each API needs instead of its versions.
    """
    from chronik.broker.api import served_apis

    if permissions:
        needed: list[Row] = []
        for key, api in served_apis().items():
            needs = [str(need) for need in api.needs]
            needed.append({"key": key, "api": api.name, "needs": needs if options.wants_json else ", ".join(needs)})
        print_rows(needed, PERMISSIONS, as_json=options.wants_json)
        return 0
    ours = {key: (api.name, str(api.versions)) for key, api in served_apis().items()}
    if not live:
        rows: list[Row] = [{"key": key, "api": name, "versions": versions} for key, (name, versions) in ours.items()]
        print_rows(rows, COLUMNS, as_json=options.wants_json)
        return 0

    async def work(cluster: ClusterClient) -> None:
        connection = await cluster.to_any()
        names = {key: name for key, (name, _) in ours.items()}
        rows: list[Row] = [
            {
                "key": key,
                "api": names.get(key) or _name_of(key),
                "versions": ours[key][1] if key in ours else None,
                "broker": str(connection.apis[key]) if key in connection.apis else None,
            }
            for key in sorted(ours.keys() | connection.apis.keys())
        ]
        columns = (*COLUMNS[:2], Column("versions", "CHRONIK"), Column("broker", str(connection.address).upper()))
        print_rows(rows, columns, as_json=options.wants_json)

    return run(options, work)


def _name_of(key: int) -> str | None:
    """The name of an API that we know but do not serve."""
    import importlib
    import pkgutil

    from chronik.wire import messages
    from chronik.wire.notation import Request

    for module in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"{messages.__name__}.{module.name}")
    for request in Request.__subclasses__():
        if request.api_key == key:
            return request.__name__.removesuffix("Request")
    return None
