"""Import every module of the packages named: proof that an image has all they need.

Modules named after --without belong to the other role and are left out. Python writes the bytecode of
what it imports, so an image also gets that, and no other bytecode.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

names, _, without = " ".join(sys.argv[1:]).partition("--without")
for name in names.split():
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        # a __main__ runs something
        if not module.name.endswith(".__main__") and module.name not in without.split():
            importlib.import_module(module.name)
