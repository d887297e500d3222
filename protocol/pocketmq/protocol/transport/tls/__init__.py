"""TLS on the ports of roles and for clients: a layer between a socket and its channel (Y-1)."""
