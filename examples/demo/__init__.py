"""A whole round between a lead institution, more hospitals and an analyst, each in its own process.

``python -m examples.demo`` runs the commands a person would type, over mutual TLS on this machine.
"""
