"""``python -m analyst_server`` is `odc-analyst`."""

from analyst_server.entry import main

main()
