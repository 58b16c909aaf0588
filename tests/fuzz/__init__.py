"""Hostile input: every decoder of what another party sends, tried with bytes that nobody would send."""
