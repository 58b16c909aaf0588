"""Plans and reports for people: text for a terminal, and HTML pages that stand alone.

A page loads nothing from anywhere and runs no script; every text from outside is escaped. The pages show
what `analyst_server.services` returns and compute nothing from it but sums and ratios.
"""
