"""The wire and the stored record: bytes to typed values and back, and what transports them.

Import from the modules themselves; this façade stays empty so that a role pays only for what it
uses.
"""
