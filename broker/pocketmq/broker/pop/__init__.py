"""Pop: messages are handed out one by one, and come back unless they are acknowledged."""
