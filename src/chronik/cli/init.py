"""`chronik init`: the files of a new cluster, open or secured, and what its clients need. Nothing is started."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import print_json
from chronik.cli.session import DONE

if TYPE_CHECKING:
    from chronik.testing.cluster_files import Place, Plan

PORT_DEFAULT: Final = 9092
PORT_MAX: Final = 65_535
NODES_MAX: Final = 100
QUORUM_OFFSET: Final = 100  # of nodes on one host, whose client ports follow each other
SECRET_BYTES: Final = 32
USER_DEFAULT: Final = "app"
FORBIDDEN_IN_NAMES: Final = frozenset("/\\:*;,\"'= ")  # a name is a file's name, a part of super.users and of rules


def init(
    directory: Path = Path("cluster"),
    /,
    *,
    nodes: Annotated[int | None, Parameter(name=["--nodes", "-n"])] = None,
    secure: bool = False,
    host: Annotated[list[str] | None, Parameter(negative="")] = None,
    port: int = PORT_DEFAULT,
    quorum_port: Annotated[list[int] | None, Parameter(negative="")] = None,
    user: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Annotated[Literal["table", "json"], Parameter(name="--format")] = "table",
) -> int:
    """Write the files of a new cluster: a server.properties for each node.

    With --secure, clients need TLS and a login. The command makes an authority, a certificate for each node, users with
    passwords, and access rules. The user admin may do everything. Every other user owns the topics, groups and
    transactional ids whose names begin with the user's name and a hyphen.

    The command asks nothing, starts nothing, and overwrites no file.

    For example:
      chronik init
      chronik init cluster --nodes 3 --secure
      chronik init --secure --host k1.example --host k2.example --host k3.example
      chronik init cluster --secure --user billing --user shop

    Parameters
    ----------
    directory
        Directory for the files; default: cluster.
    nodes
        Number of nodes; three survive the loss of one; default: one for each --host.
    secure
        TLS, logins by SCRAM, and access rules. Without it, nodes listen on loopback only.
    host
        Host name of a node, or host:port; repeatable. One is for all nodes. Default: 127.0.0.1.
    port
        Client port. Nodes on the same host use the next ports; default: 9092.
    quorum_port
        Port for the quorum; repeatable, one for each node. Default: the client port plus 1, or plus 100 for nodes on
        the same host.
    user
        User that programs log in as; repeatable; default: app.
    output
        table or json; default: table.
    """
    from chronik.testing.cluster_files import plan_open, plan_secured

    if user and not secure:
        raise Misused("--user: a cluster without --secure has no users")
    places = _places(nodes, host or [], port, quorum_port or [])
    target = directory.expanduser().absolute()
    if secure:
        plan = plan_secured(target, places, _names(user or [USER_DEFAULT]))
    else:
        _require_loopback(places)
        plan = plan_open(target, places, secrets.token_hex(SECRET_BYTES))
    if blocked := plan.in_the_way():
        more = f" and {len(blocked) - 1} more are in the way" if len(blocked) > 1 else " is in the way"
        raise Misused(f"{blocked[0]}{more}: nothing was written. Name another directory")
    try:
        plan.write()
    except OSError as error:
        raise CommandFailed(f"{error.filename or target}: {error.strerror}; the files are not complete") from error
    if output == "json":
        print_json(_described(plan, places))
    else:
        _tell(plan)
    return DONE


def _places(nodes: int | None, hosts: Sequence[str], port: int, quorum_ports: Sequence[int]) -> list[Place]:
    from chronik.testing.cluster_files import Place

    count = nodes if nodes is not None else max(1, len(hosts))
    if not 1 <= count <= NODES_MAX:
        raise Misused(f"--nodes {count}: 1 to {NODES_MAX}")
    if len(hosts) not in (0, 1, count):
        raise Misused(f"--host was given {len(hosts)} times for {count} nodes: name one for all, or one for each")
    if len(quorum_ports) not in (0, count):
        raise Misused(f"--quorum-port was given {len(quorum_ports)} times for {count} nodes: name one for each")
    named = [_host_and_port(each) for each in hosts] or [("127.0.0.1", None)]
    shares_host = len({name for name, _ in named}) < count
    places = []
    for index in range(count):
        name, own_port = named[index if len(named) == count else 0]
        first = port if own_port is None else own_port
        chosen = first if own_port is not None and len(named) == count else first + index * shares_host
        quorum = chosen + (QUORUM_OFFSET if shares_host else 1)
        places.append(Place(name, chosen, quorum_ports[index] if quorum_ports else quorum))
    taken = [(place.host, number) for place in places for number in (place.port, place.quorum_port)]
    for name, number in taken:
        if not 1 <= number <= PORT_MAX:
            raise Misused(f"port {number}: 1 to {PORT_MAX}")
        if taken.count((name, number)) > 1:
            raise Misused(f"port {number} of {name} is used twice: choose other ports with --host, --quorum-port")
    return places


def _host_and_port(text: str) -> tuple[str, int | None]:
    from chronik.broker.errors import BadSetting
    from chronik.broker.settings.listeners import parse_address

    try:
        if text.endswith("]") or ":" not in text:
            return parse_address("--host", f"{text}:0").host, None
        found = parse_address("--host", text)
    except BadSetting:
        raise Misused(f"--host {text!r}: write a host name or an address, or host:port") from None
    return found.host, found.port


def _names(users: Sequence[str]) -> list[str]:
    from chronik.testing.secured import ADMIN, BROKER

    for name in users:
        if name in (ADMIN, BROKER):
            raise Misused(f"--user {name}: this user is made in any case")
        if not name or not name.isprintable() or name.startswith(".") or FORBIDDEN_IN_NAMES & set(name):
            raise Misused(f"--user {name!r}: write a name of letters, digits, dots, hyphens and underscores")
    return list(dict.fromkeys(users))


def _require_loopback(places: Sequence[Place]) -> None:
    from chronik.broker.settings.listeners import is_loopback

    for place in places:
        if not is_loopback(place.host):
            raise Misused(f"--host {place.host}: other machines could do everything without a login: add --secure")


def _described(plan: Plan, places: Sequence[Place]) -> dict[str, Any]:
    from chronik.security.client_settings import snippets
    from chronik.testing.secured import ADMIN

    users = [
        {
            "user": access.user,
            "is_super_user": access.user == ADMIN,
            "password_file": str(plan.password_file(access.user)),
            "properties_file": str(plan.properties_file(access.user)),
        }
        for access in plan.accesses
    ]
    return {
        "directory": str(plan.directory),
        "bootstrap": plan.bootstrap,
        "nodes": [
            {"node_id": node_id, "address": place.address, "quorum_port": place.quorum_port, "file": str(file)}
            for node_id, (place, file) in enumerate(zip(places, plan.server_files, strict=True), 1)
        ],
        "users": users,
        "authority": plan.accesses[0].ca_file if plan.accesses else None,
        "clients": {
            access.user: snippets(access, str(plan.password_file(access.user)), str(plan.properties_file(access.user)))
            for access in plan.accesses
            if access.user != ADMIN
        },
        "files": [str(path) for path in plan.files],
    }


def _tell(plan: Plan) -> None:
    from chronik.security.client_settings import snippets

    print("Start the nodes, each in a terminal or on a machine of its own:")
    for file in plan.server_files:
        print(f"  chronik server {shlex.quote(str(file))}")
    print("\nUse the cluster:")
    print(f"  export CHRONIK_BOOTSTRAP={plan.bootstrap}")
    if not plan.accesses:
        print("  chronik topic create orders")
        return
    admin, first = plan.accesses[0], plan.accesses[1]
    print(f"  export CHRONIK_COMMAND_CONFIG={shlex.quote(str(plan.properties_file(admin.user)))}")
    print(f"  chronik topic create {first.user}-orders")
    print(f"\nKeep {plan.directory / 'ca.key'} apart from the nodes: it signs certificates, and no node needs it.")
    print(f"\nPrograms log in as {first.user}, with the password in {plan.password_file(first.user)}.")
    if len(plan.accesses) > 2:
        others = ", ".join(access.user for access in plan.accesses[2:])
        print(f"Files of the same kind are there for {others}.")
    made = snippets(first, str(plan.password_file(first.user)), str(plan.properties_file(first.user)))
    for library, text in made.items():
        print(f"\n{library}:")
        print("\n".join(f"    {line}" for line in text.splitlines()))
