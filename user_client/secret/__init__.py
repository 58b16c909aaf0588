"""Anchor and secret basis, from key-stream bytes. Numpy only; nothing here can be sent."""
