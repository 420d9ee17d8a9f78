"""The pages' files: `web/` beside this module, under /static/. Every other path is a page, and that is index.html.

Files are looked up in a list made at the start, so no path can lead out of the folder. They change only with the
release, so they are kept in memory with their hash as ETag.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from starlette.responses import Response

from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from starlette.requests import Request

FOLDER: Final = Path(__file__).parent / "web"
PREFIX: Final = "/static/"
TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
COMPRESSED: Final = (".js", ".mjs", ".css", ".svg", ".html", ".json", ".map", ".txt", ".webmanifest")
NO_PAGES: Final = (
    "<!doctype html><title>chronik</title><p>The pages of the console are not installed. In a clone, "
    "<code>make web</code> fetches what they need. The API works: see docs/reference/console-api.md."
)


class File(NamedTuple):
    data: bytes
    compressed: bytes | None
    media_type: str
    etag: str


class StaticFiles:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._paths = (
            {each.relative_to(folder).as_posix(): each for each in folder.rglob("*") if each.is_file()}
            if folder.is_dir()
            else {}
        )
        self._files: dict[Path, tuple[int, File]] = {}

    async def respond(self, path: str, request: Request) -> Response:
        if path.startswith(PREFIX):
            found = self._paths.get(unquote(path.removeprefix(PREFIX)))
            if found is None:
                raise ConsoleError("NOT_FOUND", "there is no such file")
        else:
            found = self._paths.get("index.html")
            if found is None:
                return Response(NO_PAGES, media_type="text/html")
        file = await asyncio.to_thread(self._load, found)
        headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                file.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type
            )
        return Response(file.data, headers=headers, media_type=file.media_type)

    def _load(self, path: Path) -> File:
        modified_ns = path.stat().st_mtime_ns
        known = self._files.get(path)
        if known is not None and known[0] == modified_ns:
            return known[1]
        data = path.read_bytes()
        compressed = gzip.compress(data, 9, mtime=0) if path.suffix in COMPRESSED else None
        media_type = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        file = File(data, compressed, media_type, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
        self._files[path] = modified_ns, file
        return file
