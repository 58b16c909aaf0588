"""Who holds how many connections, and who has to leave when somebody new comes.

Everybody is a stranger until TLS has shown a certificate of the consortium. Strangers share a small number
of places; when these are taken, a newcomer gets the place of somebody who is not being answered, from the
address that holds the most. Nobody can therefore keep others out by holding connections. Members have places
of their own, so many for each certificate. `Doors` decides; it touches no socket.
"""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

LONG_ANSWER_S: Final = 10.0
"""A stranger who has been answered for so long does not read the answer, and may be sent away."""
MOST_LEAVING: Final = 64
"""To close a connection takes longer than to accept one: nobody comes in while so many are being closed."""


Refusal = Literal["no-place", "sent-away", "certificate-full", "no-descriptor", "no-handshake"]
"""Why a connection was refused or ended: no place for a stranger, its place given to another, too many of one
certificate, no open file left, or no TLS in time."""


@dataclass(frozen=True)
class Places:
    """How many connections there may be.

    Attributes
    ----------
    in_all, for_strangers : int
        Strangers take theirs from all.
    per_address, per_certificate : int
        Of strangers from one address, and of holders of one certificate.
    """

    in_all: int = 4096
    for_strangers: int = 256
    per_address: int = 64
    per_certificate: int = 64

    def within(self, connections: int) -> Places:
        """Return these places where no more connections can be: a quarter for strangers at most."""
        in_all = max(min(self.in_all, connections), 2)
        strangers = max(min(self.for_strangers, in_all // 4), 1)
        return Places(in_all, strangers, min(self.per_address, strangers), self.per_certificate)


@dataclass(eq=False)
class Guest:
    """One connection, from its acceptance to its end."""

    address: str
    hang_up: Callable[[], None]
    certificate: bytes | None = None
    """None for a stranger, and for a member without a place."""
    is_turned_away: bool = False
    """Whether the places of its certificate are taken: its requests are answered, but refused."""
    answered_since: float | None = None
    """Since when a request of it has been answered; None while there is none."""

    def can_leave(self, now: float) -> bool:
        """Return whether nobody at our side works for it; for strangers, not for long."""
        is_stranger = self.certificate is None
        since = self.answered_since
        return since is None or (is_stranger and now - since > LONG_ANSWER_S)


@dataclass(eq=False)
class Doors:
    """The connections of a server."""

    places: Places
    clock: Callable[[], float] = time.monotonic
    refused: Counter[Refusal] = field(default_factory=Counter)
    """Connections that were refused or ended, by reason, since the start."""
    _strangers: dict[str, set[Guest]] = field(default_factory=lambda: defaultdict(set))
    _members: dict[bytes, set[Guest]] = field(default_factory=lambda: defaultdict(set))
    _leaving: set[Guest] = field(default_factory=set)
    """Who was sent away, and whose connection is not closed yet."""

    def __repr__(self) -> str:
        return f"<Doors {self.strangers} strangers, {self.members} members>"

    @property
    def strangers(self) -> int:
        """Return how many connections are of strangers."""
        return sum(map(len, list(self._strangers.values())))  # a copy: another thread may ask

    @property
    def members(self) -> int:
        """Return how many connections are of holders of a certificate."""
        return sum(map(len, list(self._members.values())))

    def enter(self, host: str, hang_up: Callable[[], None]) -> Guest | None:
        """Return the guest who has come from an address, or None if there is no place.

        Parameters
        ----------
        hang_up : callable
            Ends the connection soon; called if its place is given to another.
        """
        if len(self._leaving) >= MOST_LEAVING:
            self.refused["no-place"] += 1
            return None
        address = network_of(host)
        own = self._strangers[address]
        if len(own) >= self.places.per_address:
            has_place = self._send_away(own)
        elif self.strangers >= self.places.for_strangers:
            most = max(self._strangers.values(), key=len)
            has_place = self._send_away(most) or self._send_away(own)
        else:
            has_place = True
        if not has_place:
            self._tidy(address)
            self.refused["no-place"] += 1
            return None
        guest = Guest(address, hang_up)
        self._strangers[address].add(guest)
        return guest

    def show(self, guest: Guest, certificate: bytes) -> None:
        """Give a stranger who has shown a certificate a place of a member, or mark it as turned away."""
        own = self._members.get(certificate, set())
        is_full = self.members >= self.places.in_all - self.places.for_strangers
        if (is_full or len(own) >= self.places.per_certificate) and not self._send_away(own):
            guest.is_turned_away = True
            self.refused["certificate-full"] += 1
        else:
            self._remove(guest)
            guest.certificate = certificate
            self._members[certificate].add(guest)

    def leave(self, guest: Guest) -> None:
        """Note that a connection has ended; once or more often."""
        self._leaving.discard(guest)
        self._remove(guest)

    def note_phase(self, guest: Guest, is_answering: bool, is_coming: bool) -> None:
        """Note whether a request of a guest is not answered yet, and whether one is still coming.

        A member may take time to send; a stranger is not waited for while others want the place.
        """
        if not is_answering or (is_coming and guest.certificate is None):
            guest.answered_since = None
        elif guest.answered_since is None:
            guest.answered_since = self.clock()

    def _send_away(self, guests: Iterable[Guest]) -> bool:
        """End the connection of any of some guests for whom nobody works; return whether there was one.

        Any, not the oldest: whoever fills the places quickly would otherwise let no handshake end.
        """
        now = self.clock()
        found = [guest for guest in guests if guest.can_leave(now)]
        if not found:
            return False
        victim = secrets.choice(found)
        self._remove(victim)
        self._leaving.add(victim)
        self.refused["sent-away"] += 1
        victim.hang_up()
        return True

    def _remove(self, guest: Guest) -> None:
        if guest.certificate is None:
            self._strangers[guest.address].discard(guest)
            self._tidy(guest.address)
        else:
            self._members[guest.certificate].discard(guest)
            if not self._members[guest.certificate]:
                del self._members[guest.certificate]

    def _tidy(self, address: str) -> None:
        if not self._strangers[address]:
            del self._strangers[address]


def network_of(host: str) -> str:
    """Return what counts as one address: of IPv6 the first 64 bits, since whoever has one address has all."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
