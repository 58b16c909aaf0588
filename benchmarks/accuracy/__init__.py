"""How well a model does on what each alignment method makes of the parties' representations.

`python -m benchmarks.accuracy`; docs/benchmarks.md says what it runs, docs/methods.md what came out.
"""
