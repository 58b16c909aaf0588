"""Import every module of the named packages, which proves that an image has everything they need.

Modules named after --without belong to the other role and are left out. Importing also makes Python write
the modules' bytecode, so an image contains it, and no other bytecode.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

names, _, without = " ".join(sys.argv[1:]).partition("--without")
for name in names.split():
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        # importing a __main__ would run a command
        if not module.name.endswith(".__main__") and module.name not in without.split():
            importlib.import_module(module.name)
