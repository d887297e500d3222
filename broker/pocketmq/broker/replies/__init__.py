"""Request-reply between clients: the broker pushes a reply to its requester."""
