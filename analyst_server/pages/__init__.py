"""Plans and reports for people: text for a terminal, and HTML pages that stand alone.

A page loads nothing from anywhere and runs no script; every text that came from outside is escaped. Only the
values of `analyst_server.services` are shown here, nothing is computed from them but sums' shares.
"""
