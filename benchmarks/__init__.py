"""What we say of this software in public, as programs anybody can run: `python -m benchmarks.NAME`.

`make bench` runs all of them. Each prints its rows and claims, writes them with ``--json FILE``, and
ends with 1 if a claim does not hold.
"""
