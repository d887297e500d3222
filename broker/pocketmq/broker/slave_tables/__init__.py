"""A slave's copies of its master's tables, fetched by a timer (B-120 to B-122)."""
