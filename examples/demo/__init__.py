"""A whole round between a lead institution, more hospitals and an analyst, each its own process.

``python -m examples.demo`` types the commands a person types, over mutual TLS on this machine.
"""
