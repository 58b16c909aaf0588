"""The private parts of libraries are touched by metering/private_parts.py and by no other module."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
PACKAGES = ("protocol", "metering", "runtime", "analyst_server", "user_client")
DOCUMENTED = {"os._exit"}
"""Public in spite of its name."""


def private_accesses(source: str) -> list[str]:
    """Return the accesses to what somebody else's object keeps to itself, ``getattr`` included."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(value=owner, attr=name):
                pass
            case ast.Call(
                func=ast.Name("getattr" | "setattr" | "hasattr"), args=[owner, ast.Constant(str(name)), *_]
            ):
                pass
            case _:
                continue
        text = ast.unparse(node)
        is_private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
        is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        if is_private and not is_own and text not in DOCUMENTED:
            found.append(f"line {node.lineno}: {text}")
    return found


def test_no_other_module_touches_what_a_library_keeps_to_itself() -> None:
    found = {
        path.relative_to(REPOSITORY): accesses
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if (accesses := private_accesses(path.read_text()))
    }
    assert set(found) == {Path("metering/private_parts.py")}, found


def test_an_access_would_be_found() -> None:
    assert private_accesses("client._transport.pool")
    assert private_accesses('getattr(transport, "_ssl_protocol", None)')
    assert private_accesses("self.client._pool = 1")
    assert private_accesses("import httpx\nhttpx._utils.to_bytes")
    assert not private_accesses("self._pool, cls._made, module.__name__, os._exit")


def test_no_other_module_imports_what_a_library_keeps_to_itself() -> None:
    for package in PACKAGES:
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = [*node.module.split("."), *(alias.name for alias in node.names)]
                elif isinstance(node, ast.Import):
                    names = [part for alias in node.names for part in alias.name.split(".")]
                else:
                    continue
                ours = isinstance(node, ast.ImportFrom) and names[0] in PACKAGES
                is_private = any(name.startswith("_") and not name.startswith("__") for name in names)
                assert ours or not is_private, f"{path}: {ast.unparse(node)}"
