"""Import every module of the packages named: proof that an image has all they need.

Python writes the bytecode of what it imports, so an image also gets that, and no other bytecode.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        if not module.name.endswith(".__main__"):  # these run something
            importlib.import_module(module.name)
