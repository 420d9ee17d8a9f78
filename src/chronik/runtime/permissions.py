"""File permissions."""

from __future__ import annotations

import os
import stat


def others_may_read(path: str) -> bool:
    """Whether users other than the owner may read the file. False if that cannot be determined."""
    try:
        return bool(os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False
