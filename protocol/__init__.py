"""What both sides must agree on: messages, their bytes, states, limits and errors.

No I/O, no framework, no clock of its own. docs/protocol.md is the specification of this package.
"""

__version__ = "0.2.0.dev0"
