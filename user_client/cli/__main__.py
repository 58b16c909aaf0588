"""``python -m user_client.cli`` is `odc`."""

from user_client.cli.main import main

main()
