"""A network that obeys the fault rules of its role: what stands between sockets and channels."""
