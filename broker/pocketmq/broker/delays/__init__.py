"""Messages that wait for a delay level, and their delivery."""
