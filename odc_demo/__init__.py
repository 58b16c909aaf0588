"""A whole round between a lead institution, more hospitals and an analyst, each its own process.

``odc-demo`` runs the commands a person would type, over mutual TLS on this machine. No product package
imports this one; tests and benchmarks use its actors, so there is one way to start processes.
"""
