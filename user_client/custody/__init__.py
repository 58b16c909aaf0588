"""Key files, key streams, the consortium's root: what must not leave, and how it is stored."""
