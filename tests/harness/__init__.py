"""What several tests share: people, machines and lines that tests set up, spoil and look at.

Tests import from here and from `tests.vectors`, never from each other, so each file of tests can be read,
moved and deleted alone. From the bottom up:

- `certificates`, `own_pki`: a consortium's root, its members and a hospital's own PKI;
- `world`, `computing`, `enrolments`: the analyst's services on a real database, without HTTP;
- `app`: its application, called without a socket; `scripted_server`: an analyst that answers as a test says;
- `in_process`, `odc`: the client against that application, by the SDK and by its command;
- `consortium`, `played`: real processes that meet over mutual TLS; `compose`: containers;
- `attacks`, `relay`, `crafted`, `line`, `needles`: what goes wrong on purpose, and what must not be found;
- `problems`, `schemas`, `strategies`: numbers, tables and messages to try things on.
"""

from typing import Final

from protocol.version import MEDIA_TYPE

AS_MESSAGE: Final = {"content-type": MEDIA_TYPE}
"""Headers of a request that carries a message."""
