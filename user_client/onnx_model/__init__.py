"""The analyst's model: read, checked and evaluated in a process of its own, which has no secret.

`process` is for the rest of this package's users; the other modules are loaded in that process and know numpy
alone.
"""
