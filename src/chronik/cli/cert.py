"""`chronik cert`: the certificates that `chronik init --secure` made, as files. No node is asked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import Column, Row, print_rows
from chronik.cli.session import DONE

if TYPE_CHECKING:
    from chronik.testing.certificates import Authority

app = App(
    name="cert",
    help="""\
Show and renew the certificates of nodes.

For example:
  chronik cert show cluster/node-1/node.pem
  chronik cert renew cluster/node-1/node.pem""",
)

COLUMNS = (
    Column("file", "FILE"),
    Column("subject", "SUBJECT"),
    Column("hosts", "HOSTS", ",".join),
    Column("expires", "EXPIRES"),
)
Output = Annotated[Literal["table", "json"], Parameter(name="--format")]


@app.command
def show(first: Path, /, *files: Path, output: Output = "table") -> int:
    """Show whose certificates files hold, for which hosts, and when they expire.

    Parameters
    ----------
    first
        PEM file with a certificate.
    files
        More of them.
    output
        table or json; default: table.
    """
    print_rows([_row(each, _read(each)) for each in (first, *files)], COLUMNS, as_json=output == "json")
    return DONE


@app.command
def renew(
    first: Path,
    /,
    *files: Path,
    authority: Path | None = None,
    days: int = 365,
    output: Output = "table",
) -> int:
    """Replace certificates by new ones with the same subject and hosts, and with new keys.

    A running node uses the new certificate for new connections within chronik.ssl.reload.interval.ms, 10 seconds by
    default.

    For example:
      chronik cert renew cluster/node-1/node.pem
      chronik cert renew /etc/chronik/node.pem --authority ~/ca --days 90

    Parameters
    ----------
    first
        PEM file with the certificate and key of a node.
    files
        More of them.
    authority
        Directory with ca.pem and ca.key; default: the one above the directory of the file.
    days
        How long the new certificate is valid; default: 365.
    output
        table or json; default: table.
    """
    from chronik.testing.certificates import first_certificate

    if days < 1:
        raise Misused(f"--days {days}: 1 or more")
    rows = []
    for file in (first, *files):
        old = _read(file)
        signer = _authority(authority or file.absolute().parent.parent)
        made = signer.renewed(first_certificate(old), days=days)
        try:
            _replace(file, made.store_pem)
        except OSError as error:
            raise CommandFailed(f"{file} was not replaced: {error.strerror}") from error
        rows.append(_row(file, made.store_pem))
    print_rows(rows, COLUMNS, as_json=output == "json")
    return DONE


def _authority(directory: Path) -> Authority:
    from chronik.testing.certificates import Authority
    from chronik.testing.cluster_files import AUTHORITY_FILE, AUTHORITY_KEY_FILE

    try:
        return Authority.load((directory / AUTHORITY_FILE).read_text(), (directory / AUTHORITY_KEY_FILE).read_text())
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}: name the directory of ca.pem and ca.key with --authority"
        raise Misused(reason) from error
    except ValueError as error:
        raise Misused(f"{directory} holds no authority: {error}") from error


def _read(file: Path) -> str:
    from chronik.testing.certificates import first_certificate

    try:
        text = file.read_text()
        first_certificate(text)
    except OSError as error:
        raise Misused(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise Misused(f"{file} holds no certificate in PEM format") from error
    return text


def _replace(file: Path, text: str) -> None:
    """At once: a node that reads the file meanwhile sees the old or the new certificate, whole."""
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # with mode 0600
    try:
        with open(number, "w") as made:
            made.write(text)
            made.flush()
            os.fsync(made.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _row(file: Path, pem: str) -> Row:
    from chronik.testing.certificates import first_certificate, hosts_of

    certificate = first_certificate(pem)
    row: dict[str, Any] = {
        "file": str(file),
        "subject": certificate.subject.rfc4514_string(),
        "hosts": hosts_of(certificate),
        "expires": certificate.not_valid_after_utc.isoformat(),
    }
    return row
