"""The analyst's pages for a browser: HTTP in, HTML out.

A page shows what one REST operation answers, and an act calls the use case of one: who may see or do it is
asked of the same table (`protocol.operations`). `visits` says who looks, `answers` how a page is answered;
`analyst_server.pages` makes the pages.
"""
