"""CRC-32C, in C. `crc32c(data, value=0)` accepts any buffer; `value` continues from an earlier piece.

The function is loaded from the `crc32c` package without the package's own `__init__`, which imports argparse, email and
zipfile for a command line: three quarters of the cost of importing `chronik.wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["crc32c"]

if TYPE_CHECKING:
    from crc32c import crc32c
else:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    def _load():
        package = PathFinder.find_spec("crc32c")
        spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if spec is None:  # a different layout in this release of the package
            from crc32c import crc32c as whole

            return whole
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.crc32c

    crc32c = _load()
