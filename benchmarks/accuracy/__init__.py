"""How well a model performs on the representations after each alignment method.

`python -m benchmarks.accuracy`; docs/benchmarks.md describes what it runs, docs/methods.md the results.
"""
