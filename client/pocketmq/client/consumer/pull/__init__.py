"""Consumers without a listener: the application asks, by pull, lite pull or simple (L-1 to L-7)."""
