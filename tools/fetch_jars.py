"""Fetches the jars of one release into a folder: complete class path, each file as the list of hashes says.

    tools/python tools/fetch_jars.py 4.3.1 .cache/kafka-4.3.1
    tools/python tools/fetch_jars.py 4.2.0 .cache/spark-kafka-4.2.0
    tools/python tools/fetch_jars.py 4.4.0 .cache/kafka-4.4.0 --record    # writes the list for a new version

Maven does the fetching with the machine's own settings, mirrors and local repository. The folder appears whole or not
at all, so that whoever finds it may use it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

ORACLE = Path(__file__).resolve().parent.parent / "tests/oracle"
POMS = {"kafka": ORACLE / "pom.xml", "spark-kafka": ORACLE / "pom-spark-kafka.xml"}  # by the folder's name
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


class CannotFetch(Exception):
    """The jars could not be had; the message says what to do."""


def fetch(version: str, folder: Path, hashes: Path, *, record: bool = False) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    subject = folder.name.removesuffix(f"-{version}")
    print(f"chronik: fetching the jars of {subject} {version} into {folder}, once", flush=True)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as temporary:
        jars = Path(temporary).resolve() / "jars"
        run_maven(subject, version, jars)
        found = hashes_of(jars)
        if record:
            hashes.write_text("".join(f"{digest}  {name}\n" for name, digest in found.items()))
        compare(found, read_hashes(hashes), hashes)
        if not folder.exists():  # another clone that shares the cache may have been faster
            jars.rename(folder)


def run_maven(subject: str, version: str, folder: Path) -> None:
    command = ["mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums"]
    command += ["--file", str(POMS[subject]), "-Dstyle.color=never"]
    command += [f"{PLUGIN}:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-D{subject}.version={version}", f"-DoutputDirectory={folder}"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ran.returncode:
        raise CannotFetch(
            f"{ran.stdout}\nMaven could not fetch {subject} {version}, see above; `make jars` tries again"
        )


def hashes_of(folder: Path) -> dict[str, str]:
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def read_hashes(path: Path) -> dict[str, str]:
    """Lines as sha256sum prints them."""
    return {name: digest for digest, name in (line.split() for line in path.read_text().splitlines())}


def compare(found: dict[str, str], expected: dict[str, str], path: Path) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise CannotFetch(
                f"{name} is {found.get(name, 'absent')}, but {path} says {expected.get(name, 'nothing of it')}: "
                "remove it from Maven's local repository and run `make jars` again"
            )


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--record"]):
        sys.exit("usage: fetch_jars.py VERSION FOLDER [--record]")
    hash_list = ORACLE / f"{Path(sys.argv[2]).name}.sha256"
    try:
        fetch(sys.argv[1], Path(sys.argv[2]), hash_list, record=bool(sys.argv[3:]))
    except CannotFetch as why:
        sys.exit(f"chronik: {why}")
