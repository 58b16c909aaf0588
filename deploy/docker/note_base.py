"""Write into a list of parts (CycloneDX, JSON) which image they lie on: FILE NAME DIGEST."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def note_base(path: Path, name: str, digest: str) -> None:
    """Add the two properties to the list's metadata, by the names that image labels have."""
    parts = json.loads(path.read_text())
    noted = {"base.name": name, "base.digest": digest}
    properties = parts.setdefault("metadata", {}).setdefault("properties", [])
    for key, value in noted.items():
        properties.append({"name": f"org.opencontainers.image.{key}", "value": value})
    path.write_text(json.dumps(parts, indent=2) + "\n")


if __name__ == "__main__":
    note_base(Path(sys.argv[1]), *sys.argv[2:])
