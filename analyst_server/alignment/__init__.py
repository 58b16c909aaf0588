"""Alignment: from the anchor representations A_i to the change-of-basis matrices G_i.

Functions on arrays: one module per method, and a registry of all methods. Only numpy, SciPy and threadpoolctl
are imported here (docs/adr/0011).
"""

from analyst_server.alignment._contract import AnchorReps, Solution
from analyst_server.alignment._spread import SpreadReps, Work
from analyst_server.alignment.diagnostics import Diagnostics
from analyst_server.alignment.installed import InstalledMethodError, Solve, installed_names
from analyst_server.alignment.registry import Alignment, AnchorRepError, align, align_to

__all__ = [
    "Alignment",
    "AnchorRepError",
    "AnchorReps",
    "Diagnostics",
    "InstalledMethodError",
    "Solution",
    "Solve",
    "SpreadReps",
    "Work",
    "align",
    "align_to",
    "installed_names",
]
