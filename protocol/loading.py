"""How the programs of both sides load their libraries."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Import what a program needs for as long as it runs.

    Modules stay, so looking for garbage among them is a tenth of a command's start for nothing.
    A plug-in of pydantic would see every message and every secret that is validated, and looking for
    one opens the metadata of each package installed: there is none, unless the environment says so.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
