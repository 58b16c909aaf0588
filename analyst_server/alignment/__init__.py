"""What G_i is: functions on arrays, one module per method, one registry.

Numpy, SciPy and threadpoolctl only (docs/adr/0011).
"""

from analyst_server.alignment.diagnostics import Diagnostics
from analyst_server.alignment.registry import Alignment, AnchorRepError, align

__all__ = ["Alignment", "AnchorRepError", "Diagnostics", "align"]
