"""Plans and reports for people: text for a terminal, and HTML pages that stand alone.

A page loads nothing from anywhere and runs no script; every text that came from outside is escaped. What
`analyst_server.services` returns is shown here; nothing is computed from it but sums and ratios.
"""
