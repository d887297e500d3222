"""Message filters: which messages of a queue match a subscription."""
