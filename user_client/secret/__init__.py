"""The anchor, the secret basis and a party's own model, from key-stream bytes.

Only numpy is imported here, and nothing here can be serialised or sent.
"""
