"""A fake analyst that tries a client: it lies in one way at a time, and judges what the client does.

The analyst behind it is the real one, on the loopback with real TLS. docs/conformance.md says how to run it.
"""
