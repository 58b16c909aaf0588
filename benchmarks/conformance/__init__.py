"""Bugs planted in the client of examples/node-institution: how many of them the vectors find."""
