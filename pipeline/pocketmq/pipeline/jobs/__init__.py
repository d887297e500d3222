"""Spark jobs over the flights: the demo's last step, and `pocketmq pipeline flights`."""
