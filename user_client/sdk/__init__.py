"""What a data engineer imports: the use cases of an institution and of the lead.

`Session` opens a state directory, `Session.round` gives the `Round` of a collaboration, and the functions
are about the consortium.

>>> from pathlib import Path
>>> from user_client.sdk import Session
>>> Session(Path("no-such-directory")).is_joined()
False
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from user_client.sdk.surface import *  # noqa: F403
    from user_client.sdk.surface import __all__ as __all__
else:  # a checker of types would take every name for one that is there

    def __getattr__(name: str) -> Any:
        """Load all of `surface` for the first of its names that is asked for.

        The commands import from the modules of this package, each what it needs, and start sooner.
        """
        if find_spec(f"{__name__}.{name}") is None:  # Python imports modules by itself
            surface = import_module("user_client.sdk.surface")
            names = ["__all__", *surface.__all__]
            globals().update({known: getattr(surface, known) for known in names})
            if name in names:
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(import_module("user_client.sdk.surface").__all__)
