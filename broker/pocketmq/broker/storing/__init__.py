"""Putting messages into the store: what may be changed before, and when one is safe after."""
