"""HTTP in, HTTP out: requests become calls of `analyst_server.services`, which decide."""
