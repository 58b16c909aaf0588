"""Import every module of the named packages, which proves that an image has everything they need.

Importing also makes Python write the modules' bytecode, so an image contains it, and no other bytecode.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
        if not module.name.endswith(".__main__"):  # importing these would run a command
            importlib.import_module(module.name)
