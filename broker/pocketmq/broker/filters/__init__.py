"""Which messages of a queue a subscription wants."""
