"""From the log to what is made of it: queues, index, events, waiting consumers."""
