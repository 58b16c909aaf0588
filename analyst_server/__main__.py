"""``python -m analyst_server`` is `odc-analyst`."""

from analyst_server.entry import main

if __name__ == "__main__":
    main()
