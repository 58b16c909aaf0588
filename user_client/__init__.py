"""An institution's process: CLI, SDK, secrets, tables, transport, local prediction."""
