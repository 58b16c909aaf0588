"""Key files, key streams, the consortium's root: what must not leave, and how it lies on the disk."""
