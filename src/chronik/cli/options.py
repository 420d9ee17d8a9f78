"""The options that commands share: where the cluster is, how to log in, in which form to print, whether to watch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from chronik.cli.errors import Misused

if TYPE_CHECKING:
    from chronik.client.properties import ClientSecurity

Format = Literal["table", "json"]
CommandConfig = Annotated[Path | None, Parameter(name="--command-config", env_var="CHRONIK_COMMAND_CONFIG")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Options:
    """What every command takes."""

    bootstrap: Annotated[
        str, Parameter(name=["--bootstrap", "--bootstrap-server", "--bootstrap-servers"], env_var="CHRONIK_BOOTSTRAP")
    ] = "localhost:9092"
    """Bootstrap brokers, as host:port,host:port; default: localhost:9092."""

    format: Format = "table"
    """Output format: table (default) or json."""

    command_config: CommandConfig = None
    """Properties file of a Kafka client: security.protocol, ssl.*, sasl.mechanism, sasl.jaas.config."""

    @property
    def wants_json(self) -> bool:
        return self.format == "json"

    def security(self) -> ClientSecurity:
        """Raises Misused."""
        from chronik.client.properties import NO_SECURITY, BadProperties, ClientSecurity

        if self.command_config is None:
            return NO_SECURITY
        try:
            return ClientSecurity.load(str(self.command_config.expanduser()))
        except BadProperties as fault:
            raise Misused(f"--command-config {self.command_config}: {fault}") from fault


DEFAULTS: Final = Options()


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WatchOptions(Options):
    """What every command takes that shows something."""

    watch: Annotated[float | None, Parameter(name="--watch")] = None
    """Show it again every N seconds, until Ctrl-C; --watch alone: every 2 seconds."""


WATCH_DEFAULTS: Final = WatchOptions()
