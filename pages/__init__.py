"""What pages in a browser are made of: layout, style, numbers, charts, and what guards a session.

The analyst's pages stand on it, and so can those of an institution: it knows neither side and no web
framework. A page loads files of its own origin alone, and has no script or style in its text.
"""
