"""What a wheel says of itself, where that depends on the place of the repository: project URLs and the README's links.

hatchling calls it. No address is in this repository: a release names its own in CHRONIK_REPOSITORY, the URL under which
the files of the release's tag can be read. Links of the README then lead there from a package index. Without it they
stay as they are, which is right for builds that are not published.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "CHRONIK_REPOSITORY"
_link = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


class PackageMetadata(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = os.environ.get(VARIABLE, "").rstrip("/")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(text, address)}
        metadata["urls"] = urls(address)


def with_links(text: str, address: str) -> str:
    return _link.sub(lambda found: f"]({address}/{found[1]})", text) if address else text


def urls(address: str) -> dict[str, str]:
    if not address:
        return {}
    return {
        "Homepage": address,
        "Documentation": f"{address}/docs",
        "Changelog": f"{address}/CHANGELOG.md",
        "Source": address,
    }
