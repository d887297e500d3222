"""Spark jobs on the flights: the demo's last step, and `pocketmq pipeline flights`."""
