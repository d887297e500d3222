"""The network seam: channels over TCP or memory, and a client that keeps one per address."""
