"""Builds the container image without a daemon: this interpreter, the broker and what both need, in one layer.

    .venv/bin/python tools/build_image.py [--output build/image]

No base image, no shell and no package manager: what is not there needs no update. Packages come from the lock file
requirements/all.txt with their hashes, only those that the broker needs. Files carry one fixed time, so that the same
sources give the same layer. umoci writes the image (an OCI layout), skopeo packs it into one archive.
"""

from __future__ import annotations

import argparse
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
USER = 10001
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
CREATED = "1980-01-01T00:00:00Z"
CREATED_S = 315_532_800
# Of the standard library: what no broker imports.
UNUSED = (
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "pydoc_data",
    "distutils",
    "config-*",
    "site-packages",
)
UNUSED_MODULES = (
    "_tkinter",
    "_test",
    "_ctypes_test",
    "xxlimited",
    "_sqlite3",
    "_curses",
    "_dbm",
    "_gdbm",
    "readline",
    "nis",
)
# What glibc loads by name when a program resolves a host.
RESOLVER = ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nchronik:x:{USER}:{USER}:chronik:/data:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nchronik:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MISSING = "chronik: `make image` needs {}: apt-get install umoci skopeo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build/image")
    parser.add_argument("--tag", default="latest")
    given = parser.parse_args()
    for tool in ("umoci", "skopeo"):
        if shutil.which(tool) is None:
            sys.exit(MISSING.format(tool))
    with tempfile.TemporaryDirectory(prefix="chronik-image-") as name:
        rootfs = Path(name, "rootfs")
        fill(rootfs)
        compile_imported(rootfs)
        settle(rootfs)
        unpacked_bytes = sum(path.lstat().st_size for path in rootfs.rglob("*"))
        archive = pack(rootfs, given.output, given.tag)
    size = archive.stat().st_size / 1e6
    print(f"{archive}: {size:.1f} MB, {unpacked_bytes / 1e6:.0f} MB unpacked")


def fill(rootfs: Path) -> None:
    install_python(rootfs)
    install_packages(rootfs)
    copy_libraries(rootfs)
    for name, text in FILES.items():
        write(rootfs / name, text)
    if CERTIFICATES.exists():
        copy(CERTIFICATES, rootfs / CERTIFICATES.relative_to("/"))
    for name in (
        "data",
        "tmp",
        "proc",
        "dev",
        "sys",
    ):  # a runtime mounts there, and cannot make them on a read-only root
        (rootfs / name).mkdir()
    write(
        rootfs / "usr/bin/chronik",
        f"#!/usr/bin/{PYTHON} -I\nfrom chronik.cli.entry import main\n\nmain()\n",
    )
    (rootfs / "usr/bin/chronik").chmod(0o755)


def install_python(rootfs: Path) -> None:
    program = Path(os.path.realpath(sys.executable))
    copy(program, rootfs / "usr/bin" / PYTHON)
    strip(rootfs / "usr/bin" / PYTHON)
    (rootfs / "usr/bin/python3").symlink_to(PYTHON)
    library = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns("__pycache__", *UNUSED)
    shutil.copytree(library, rootfs / "usr/lib" / PYTHON, ignore=ignored, symlinks=False)
    for module in (rootfs / "usr/lib" / PYTHON / "lib-dynload").glob("*.so"):
        if module.name.startswith(UNUSED_MODULES):
            module.unlink()
        else:
            strip(module)


def install_packages(rootfs: Path) -> None:
    place = rootfs / "usr/lib" / PYTHON / "site-packages"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as name:
        wanted = Path(name, "requirements.txt")
        wanted.write_text("".join(locked(needed())))
        target = ["--target", str(place), "--no-compile", "--no-deps"]
        subprocess.run([*pip, "install", *target, "--require-hashes", "-r", str(wanted)], check=True)
        shutil.rmtree(place / "bin", ignore_errors=True)  # scripts of packages
        subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", name, str(ROOT)], check=True)
        [wheel] = Path(name).glob("chronik-*.whl")
        subprocess.run([*pip, "install", *target, str(wheel)], check=True)
    shutil.rmtree(place / "bin", ignore_errors=True)
    for library in place.rglob("*.so*"):
        strip(library)


def needed() -> set[str]:
    """The packages that `pip install chronik` brings, and those that they bring."""
    left = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    found: set[str] = set()
    while left:
        requirement = Requirement(left.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            left += metadata.requires(name) or []
    return found


def locked(names: set[str]) -> Iterator[str]:
    """Their entries of the lock file, with hashes."""
    text = (ROOT / "requirements/all.txt").read_text()
    for entry in re.findall(r"^[a-zA-Z0-9].*(?:\n[ #].*)*\n", text, re.MULTILINE):
        if canonicalize_name(re.split(r"[=\[; ]", entry, maxsplit=1)[0]) in names:
            yield entry


def copy_libraries(rootfs: Path) -> None:
    """Every shared library that a program or module in the image asks for, and what these ask for."""
    asked = [path for path in rootfs.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)]
    found = dict(libraries_of(asked))
    folder = next(path.parent for name, path in found.items() if name.startswith("libc.so"))
    found |= {name: folder / name for name in RESOLVER if (folder / name).exists()}
    for name, path in found.items():
        loader = name.startswith("ld-")
        # The loader is found by the path that is compiled into programs.
        place = rootfs / path.relative_to("/") if loader else rootfs / "usr/lib" / name
        copy(path, place)
        strip(place)
    write(rootfs / "etc/ld.so.conf", "/usr/lib\n")
    subprocess.run(["/sbin/ldconfig", "-r", str(rootfs)], check=True, stderr=subprocess.DEVNULL)


def libraries_of(files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for path in files:
        told = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
        for line in told.splitlines():
            matched = re.match(r"\s+(?:(\S+) => )?(/\S+) \(", line)
            if matched and "site-packages" not in matched[2]:
                yield matched[1] or Path(matched[2]).name, Path(matched[2])


def is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def strip(path: Path) -> None:
    if shutil.which("strip") and not path.is_symlink() and is_elf(path):
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=False, stderr=subprocess.DEVNULL)


def copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(os.path.realpath(source), place)
    place.chmod(stat.S_IMODE(source.stat().st_mode))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def compile_imported(rootfs: Path) -> None:
    """Compiles what a broker and the commands import, and nothing else: the root is read-only, so a start could not
    keep what it compiles, and all of the rest is a third of the image."""
    packages = rootfs / "usr/lib" / PYTHON / "site-packages"
    told = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTS, str(packages)], capture_output=True, text=True, check=True
    ).stdout
    library = Path(sysconfig.get_path("stdlib"))
    for name in told.splitlines():
        path = Path(name)
        place = path if path.is_relative_to(packages) else rootfs / "usr/lib" / PYTHON / path.relative_to(library)
        py_compile.compile(
            str(place),
            dfile=f"/{place.relative_to(rootfs)}",
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


IMPORTS = """
import importlib, pkgutil, sys, urllib.request
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
for name in ("chronik.broker", "chronik.cli", "chronik.client", "chronik.backup"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
library = importlib.util.__file__.removesuffix("/importlib/util.py")
for module in list(sys.modules.values()):
    path = getattr(module, "__file__", None) or ""
    if path.endswith(".py") and path.startswith((sys.argv[1], library)):
        if path.startswith(sys.argv[1]) or "site-packages" not in path:
            print(path)
"""


def settle(rootfs: Path) -> None:
    """One time for all files, modes that do not depend on who builds, and a data directory for the broker's user."""
    for path in sorted(rootfs.rglob("*"), reverse=True):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if is_program else 0o644)
        os.utime(path, (CREATED_S, CREATED_S), follow_symlinks=False)
    (rootfs / "tmp").chmod(0o1777)
    if os.geteuid() == 0:
        os.chown(rootfs / "data", USER, USER)
        (rootfs / "data").chmod(0o700)
    else:
        (rootfs / "data").chmod(0o1777)
    os.utime(rootfs, (CREATED_S, CREATED_S))


def pack(rootfs: Path, output: Path, tag: str) -> Path:
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    image = f"{output}:{tag}"
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    history = ["--history.created", CREATED, "--history.author", "Chronik"]
    subprocess.run(["umoci", "init", "--layout", str(output)], check=True)
    subprocess.run(["umoci", "new", "--image", image], check=True)
    subprocess.run(["umoci", "insert", *rootless, *history, "--image", image, str(rootfs), "/"], check=True)
    settings = ["--config.user", f"{USER}:{USER}", "--config.workingdir", "/data", "--config.volume", "/data"]
    settings += ["--config.entrypoint", "/usr/bin/chronik", "--config.cmd", "server", "--config.stopsignal", "SIGTERM"]
    settings += ["--config.exposedports", "9092/tcp", "--config.exposedports", "9093/tcp"]
    for name, value in ENVIRONMENT.items():
        settings += ["--config.env", f"{name}={value}"]
    for name, value in labels().items():
        settings += ["--config.label", f"{name}={value}"]
    subprocess.run(["umoci", "config", *history, "--created", CREATED, "--image", image, *settings], check=True)
    subprocess.run(["umoci", "gc", "--layout", str(output)], check=True)
    archive = output.with_suffix(".tar")
    archive.unlink(missing_ok=True)
    command = ["skopeo", "--insecure-policy", "copy", "--quiet", f"oci:{image}", f"oci-archive:{archive}:chronik:{tag}"]
    subprocess.run(command, check=True)
    return archive


ENVIRONMENT = {
    "PATH": "/usr/bin",
    "KAFKA_LOG_DIRS": "/data",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
    "SSL_CERT_FILE": str(CERTIFICATES),
}


def labels() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "org.opencontainers.image.title": "Chronik",
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.licenses": project["license"],
        "org.opencontainers.image.version": metadata.version("chronik"),
    }


if __name__ == "__main__":
    main()
