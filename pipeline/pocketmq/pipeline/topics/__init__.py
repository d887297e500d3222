"""Topics read from the brokers: the requests to a cluster, and a task's pulls."""
