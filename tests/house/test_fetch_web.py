"""The console's libraries: locked by hash, without an address, and importable by a browser."""

from __future__ import annotations

import io
import re
import tarfile

import pytest

from fetch_web import LIBRARIES, LOCK, CannotFetch, locked, unpack, with_paths


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as members:
        for path, content in files.items():
            member = tarfile.TarInfo(f"package/{path}")
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_the_lock_holds_names_versions_and_hashes_and_nothing_else() -> None:
    """Where packages come from is the machine's own configuration of npm."""
    line = re.compile(r"[@a-z/-]+==\d+\.\d+\.\d+ --hash=sha512:[A-Za-z0-9+/]{86}==")
    assert [each for each in LOCK.read_text().splitlines() if not line.fullmatch(each)] == []
    assert {*LIBRARIES, "typescript"} == locked().keys()


def test_a_package_with_another_hash_is_refused() -> None:
    """The message names both hashes, and nothing of the package is used."""
    with pytest.raises(CannotFetch, match="htm has the hash sha512:"):
        unpack(archive({"dist/htm.mjs": b"changed"}), "htm", locked()["htm"][1])


def test_libraries_import_each_other_by_path() -> None:
    """Browsers resolve no package names, and an import map would be an inline script."""
    assert with_paths('import{h as t}from"preact";') == 'import{h as t}from"./preact.js";'
    assert with_paths("import { useRef } from 'preact/hooks'") == "import { useRef } from './preact-hooks.js'"
    assert with_paths('export * from "./other.js"') == 'export * from "./other.js"'


def test_a_library_that_needs_one_more_package_is_noticed() -> None:
    """A new version of a library may; its page would then stay empty."""
    with pytest.raises(CannotFetch, match="imports left-pad, which is none of"):
        with_paths('import pad from "left-pad"')
