"""The `chronik` command: parses what was typed and hands it to one file per noun.

It never imports Spark, Arrow or the console at the top of a module: a broker runs where they are not installed.
"""

from __future__ import annotations

import sys

from cyclopts import App

from chronik import __version__
from chronik.cli.server import server
from chronik.cli.up import up

app = App(
    name="chronik",
    help="A Kafka-wire-compatible broker cluster with a Raft metadata quorum, and a data pipeline on Spark.",
    version=__version__,
)


app.command(server)
app.command(up)


def main() -> None:
    sys.exit(app())
