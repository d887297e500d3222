"""Commands for what brokers keep: topics, groups, users and rules."""
