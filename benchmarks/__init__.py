"""Every figure we publish about this software, as programs anybody can run: `python -m benchmarks.NAME`.

`make bench` runs all of them. Each prints its rows and claims, writes them to a file with ``--json FILE``,
and exits with 1 if a claim does not hold.
"""
