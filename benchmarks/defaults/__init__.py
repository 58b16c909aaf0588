"""What a user gets by default: drafted terms, the default model and the warnings, on tables as they come.

`python -m benchmarks.defaults` does what the members of a collaboration do with the commands of the README,
by the same code, and compares it with staying alone and with other ways to learn from all rows.
"""
