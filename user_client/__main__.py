"""``python -m user_client`` is `odc`."""

from user_client.entry import main

if __name__ == "__main__":
    main()
