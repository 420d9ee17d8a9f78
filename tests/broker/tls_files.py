"""Certificates as files, and the settings of nodes and clients that use them."""

from __future__ import annotations

from pathlib import Path

from chronik.testing.certificates import Authority, Certified


class Files:
    """One authority, a node's certificate `CN=node`, and clients by name."""

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        self.directory = directory
        self.authority = authority or Authority()
        self.trust, self.node = directory / "ca.pem", directory / "node.pem"
        self.trust.write_text(self.authority.pem)
        self.authority.server("node").write(self.node)

    @property
    def stores(self) -> dict[str, str]:
        """The settings that every node gets."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
        }

    def client(self, name: str | None = None, *, days: int = 30, authority: Authority | None = None) -> Path | None:
        if name is None:
            return None
        made = (authority or self.authority).client(name, days=days)
        return made.write(self.directory / f"{name}{'' if days > 0 else '-expired'}.pem")

    def properties(self, name: str | None = None) -> dict[str, str]:
        """As Java's clients and `chronik --command-config` have them."""
        path = self.client(name)
        store = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)} if path is not None else {}
        return {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust),
            **store,
        }

    def properties_file(self, name: str | None = None) -> Path:
        path = self.directory / f"client-{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.properties(name).items()))
        return path

    def librdkafka(self, path: Path | None = None) -> dict[str, str]:
        """As librdkafka has them."""
        own = {"ssl.certificate.location": str(path), "ssl.key.location": str(path)} if path is not None else {}
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.trust), "log_level": "0", **own}


def replaced(path: Path, made: Certified | str) -> None:
    """As a careful operator does it: the new file has its name when it is whole."""
    beside = path.with_suffix(".new")
    beside.write_text(made if isinstance(made, str) else made.store_pem)
    beside.replace(path)
