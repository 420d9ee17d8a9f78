"""Fetches the npm packages of requirements/web.lock, each as its hash says, and unpacks what the console needs of them.

    tools/python tools/fetch_web.py libraries                # into src/chronik/console/web/vendor, which git ignores
    tools/python tools/fetch_web.py libraries --optional     # without npm: one line, and exit code 0
    tools/python tools/fetch_web.py check FOLDER             # the types of the pages, by TypeScript, kept in FOLDER
    tools/python tools/fetch_web.py record preact@11.2.0     # writes the version and its hash into the lock

npm does the fetching with the machine's own settings, mirrors and cache. A folder appears complete or not at all. A
second call with the same lock returns at once. Browsers resolve no package names, so the names that libraries import
each other by become paths; nothing else of a library changes.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements/web.lock"
VENDOR = ROOT / "src/chronik/console/web/vendor"
STAMP = "complete.stamp"


class Module(NamedTuple):
    package: str
    code: str
    types: tuple[str, ...]  # the first one is the module's own; the others are found beside it by name
    closing: str = ""  # what makes a script a module


# The modules of vendor/, by the name that libraries import them by.
MODULES = {
    "preact": Module("preact", "dist/preact.mjs", ("src/index.d.ts", "src/jsx.d.ts", "src/dom.d.ts")),
    "preact/hooks": Module("preact", "hooks/dist/hooks.mjs", ("hooks/src/index.d.ts",)),
    "@preact/signals-core": Module("@preact/signals-core", "dist/signals-core.mjs", ("dist/signals-core.d.ts",)),
    "@preact/signals": Module("@preact/signals", "dist/signals.mjs", ("dist/signals.d.ts",)),
    "htm": Module("htm", "dist/htm.mjs", ("dist/htm.d.ts",)),
    "uplot": Module("uplot", "dist/uPlot.iife.min.js", ("dist/uPlot.d.ts",), "\nexport default uPlot;\n"),
}
STYLES = {"uplot.css": ("uplot", "dist/uPlot.min.css")}
LIBRARIES = tuple(sorted({module.package for module in MODULES.values()}))
_import = re.compile(r"""(\bfrom|\bimport)(\s*\(?\s*)(["'])([@\w][@\w/.-]*|\./index|\.\./\.\./src/index)(["'])""")
_source_map = re.compile(r"\n?//# sourceMappingURL=.*\s*$")


class CannotFetch(Exception):
    """The packages could not be had; the message says what to do."""


class NpmMissing(CannotFetch):
    pass


def locked() -> dict[str, tuple[str, str]]:
    """Version and hash by package. A line is `name==version --hash=sha512:base64`."""
    found = {}
    for line in LOCK.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition("==")
            version, _, digest = rest.partition(" --hash=sha512:")
            found[name] = (version, digest)
    return found


def stamp_of(packages: tuple[str, ...]) -> str:
    """What makes a folder stale when it changes: the locked packages, and how this tool unpacks them."""
    lock = locked()
    named = " ".join(f"{name}@{lock[name]}" for name in packages)
    return hashlib.sha256(named.encode() + Path(__file__).read_bytes()).hexdigest()


def is_ready(folder: Path, packages: tuple[str, ...]) -> bool:
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == stamp_of(packages)


def fetch_libraries() -> None:
    if is_ready(VENDOR, LIBRARIES):
        return
    require_npm()
    print("chronik: fetching the console's libraries, once", flush=True)
    packed = pack(LIBRARIES)
    with tempfile.TemporaryDirectory(prefix="vendor-", dir=VENDOR.parent) as temporary:
        folder = Path(temporary) / "vendor"
        folder.mkdir()
        for name, module in MODULES.items():
            write_module(folder, name, module, packed[module.package])
        for name, (package, path) in STYLES.items():
            (folder / name).write_bytes(packed[package][path])
        for package in LIBRARIES:
            (folder / f"{file_of(package)}.LICENSE").write_bytes(packed[package]["LICENSE"])
        replace(folder, VENDOR, LIBRARIES)


def fetch_typescript(folder: Path) -> None:
    if is_ready(folder, ("typescript",)):
        return
    require_npm()
    print(f"chronik: fetching TypeScript's checker into {folder}, once", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    packed = pack(("typescript",))["typescript"]
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as temporary:
        unpacked = Path(temporary) / "typescript"
        for path, content in packed.items():
            if re.fullmatch(r"lib/(_?tsc\.js|lib\..*d\.ts)|package\.json|LICENSE\.txt", path):
                (unpacked / path).parent.mkdir(parents=True, exist_ok=True)
                (unpacked / path).write_bytes(content)
        replace(unpacked, folder, ("typescript",))


def check_types(folder: Path) -> None:
    fetch_libraries()
    fetch_typescript(folder)
    command = ["node", str(folder / "lib/tsc.js"), "--project", str(ROOT / "tools/web_types.json")]
    if subprocess.run(command).returncode:
        raise CannotFetch("the console's pages have type errors, see above")


def replace(new: Path, folder: Path, packages: tuple[str, ...]) -> None:
    (new / STAMP).write_text(stamp_of(packages))
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def write_module(folder: Path, name: str, module: Module, files: dict[str, bytes]) -> None:
    code = _source_map.sub("", files[module.code].decode())
    (folder / f"{file_of(name)}.js").write_text(with_paths(code) + module.closing)
    own, *others = module.types
    (folder / f"{file_of(name)}.d.ts").write_text(with_paths(files[own].decode()))
    for path in others:
        (folder / Path(path).name).write_text(with_paths(files[path].decode()))


def with_paths(code: str) -> str:
    def path_of(found: re.Match[str]) -> str:
        name = "preact" if found[4].endswith("/index") else found[4]  # only its types name a file of their own package
        if name not in MODULES:
            raise CannotFetch(f"a library imports {name}, which is none of {', '.join(MODULES)}")
        return f"{found[1]}{found[2]}{found[3]}./{file_of(name)}.js{found[5]}"

    return _import.sub(path_of, code)


def file_of(name: str) -> str:
    return name.removeprefix("@preact/").replace("/", "-")


def pack(packages: tuple[str, ...]) -> dict[str, dict[str, bytes]]:
    """The files of each package, by their path in it."""
    lock = locked()
    archives = fetch([f"{name}@{lock[name][0]}" for name in packages])
    return {name: unpack(archive, name, lock[name][1]) for name, archive in zip(packages, archives, strict=True)}


def require_npm() -> None:
    if shutil.which("npm") is None:
        asked = subprocess.run(["sh", str(ROOT / "tools/require"), "npm"], stderr=subprocess.PIPE, text=True)
        raise NpmMissing(asked.stderr.strip().removeprefix("chronik: "))


def fetch(named: list[str]) -> list[bytes]:
    with tempfile.TemporaryDirectory(prefix="chronik-web-") as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", *named]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if ran.returncode:
            raise CannotFetch(f"{ran.stderr}\nnpm could not fetch {' '.join(named)}, see above; `make web` tries again")
        return [Path(folder, name).read_bytes() for name in ran.stdout.split()]


def unpack(archive: bytes, name: str, digest: str) -> dict[str, bytes]:
    found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != digest:
        raise CannotFetch(
            f"{name} has the hash sha512:{found}, but {LOCK.name} says sha512:{digest}: "
            "run `npm cache clean --force` and `make web` again"
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return {
            member.name.partition("/")[2]: content.read()
            for member in members
            if member.isfile() and (content := members.extractfile(member))
        }


def record(named: str) -> None:
    require_npm()
    name, _, version = named.rpartition("@")
    digest = base64.b64encode(hashlib.sha512(fetch([named])[0]).digest()).decode()
    lock = (locked() if LOCK.exists() else {}) | {name: (version, digest)}
    lines = [f"{name}=={version} --hash=sha512:{digest}\n" for name, (version, digest) in sorted(lock.items())]
    LOCK.write_text("".join(lines))


def main(arguments: list[str]) -> None:
    match [each for each in arguments if each != "--optional"]:
        case ["libraries"]:
            fetch_libraries()
        case ["check", folder]:
            check_types(Path(folder).resolve())
        case ["record", named]:
            record(named)
        case _:
            sys.exit("usage: fetch_web.py libraries | check FOLDER | record NAME@VERSION [--optional]")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NpmMissing as why:
        if "--optional" not in sys.argv:
            sys.exit(f"chronik: {why}")
        print(f"chronik: everything works but the console: {why}", file=sys.stderr)
    except CannotFetch as why:
        sys.exit(f"chronik: {why}")
