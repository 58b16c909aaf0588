"""What taking uplinks costs the analyst's server: of eight institutions at a time, over mutual TLS."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from analyst_server.installation import open_analyst
from analyst_server.services import end
from analyst_server.services.work import Size
from analyst_server.settings import Settings
from benchmarks import scale
from benchmarks.many_parties import Crowd
from odc_demo.actors import Analyst
from protocol.messages import DTYPE_BYTES
from user_client.custody.round_directory import TERMS_FILE

SENDERS: Final = 8
ROUNDS: Final = 3


@dataclass(frozen=True)
class Receiving:
    """A running analyst, and institutions that have joined and send random arrays of the right shape."""

    scene: scale.Scene
    crowd: Crowd

    def take(self, rows: int, latent_dim: int) -> tuple[Size, float]:
        """Return the size of a round, and the median of the server's seconds for an uplink of several."""
        found = [self._take_once(rows, latent_dim) for _ in range(ROUNDS)]
        return found[0][0], statistics.median(seconds for _, seconds in found)

    def _take_once(self, rows: int, latent_dim: int) -> tuple[Size, float]:
        """Let all but the lead send."""
        scene, lead, others = self.scene, self.scene.names[:1], self.scene.names[1:]
        collaboration_id = scale.publish(scene, latent_dim)
        scene.step("accept, the lead", lambda session: session.round(collaboration_id).accept(), lead)
        with scene.session(lead[0]) as session:
            terms = self.crowd.read(session.round(collaboration_id).directory.read(TERMS_FILE))
        scene.step("accept", lambda session: self.crowd.accept(session, collaboration_id), others)
        scene.step("create anchor", lambda session: session.round(collaboration_id).create_anchor(), lead)
        scene.step("contribute", lambda session: self.crowd.send(session, collaboration_id, rows), others)
        opened = open_analyst(Settings(data_dir=scene.analyst.data_dir))
        try:
            end.cancel(opened, collaboration_id)
        finally:
            opened.records.dispose()
        if scene.errors:
            raise RuntimeError(f"an institution could not send: {scene.errors[0]}")
        size = Size(
            len(scene.names),
            rows,
            scale.FEATURES,
            latent_dim,
            terms.anchor.rows,
            number_bytes=DTYPE_BYTES[terms.rep_dtype],
        )
        return size, scene.rows[-1]["server_ms_per_step"] / 1000


@contextmanager
def receiving(folder: Path) -> Iterator[Receiving]:
    """Yield a server that has taken uplinks before: the first ones load what the others find loaded."""
    names = [f"clinic-{number}" for number in range(SENDERS + 1)]
    scene = scale.Scene(Analyst(folder / "analyst"), folder, names)
    try:
        scale.start(scene)
        with scene.session(names[0]) as session:
            crowd = Crowd(session, scene.analyst.url, names[1:], folder / "crowd")
        scene.step("ask to join", crowd.ask_to_join, names[1:])
        scene.step("approve all", scale.approve, names[:1])
        scene.step("join", crowd.join, names[1:])
        found = Receiving(scene, crowd)
        found.take(scale.ROWS, scale.LATENT_DIM)
        yield found
    finally:
        scene.analyst.stop()
