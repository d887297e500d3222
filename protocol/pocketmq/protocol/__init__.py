"""The wire and the stored record: bytes to typed values and back, and the transport that moves them.

Import from the modules themselves; this façade stays empty so that a role pays only for what it
uses.
"""
