"""`consumerFilter.json`: expressions of consumers, kept for a broker of RocketMQ (Q-30 to Q-33)."""
