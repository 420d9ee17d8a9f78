"""CRC-32C, in C. `crc32c(data, value=0)` takes any buffer; `value` goes on from an earlier piece.

The function is taken out of the `crc32c` package without running the package's own start-up, which imports argparse,
email and zipfile for a command line of its own: three quarters of what importing `chronik.wire` would cost.
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
        if spec is None:  # not where this release of the package has it
            from crc32c import crc32c as whole

            return whole
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.crc32c

    crc32c = _load()
