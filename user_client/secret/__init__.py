"""Anchor and secret basis, from key-stream bytes. Numpy and scipy only; nothing here can be sent."""
