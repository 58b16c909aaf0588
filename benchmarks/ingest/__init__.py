"""How fast the analyst takes uplinks, beside servers that only store or discard the same bytes."""
