"""Messages found by key, id or position."""
