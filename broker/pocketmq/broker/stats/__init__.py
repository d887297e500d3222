"""What goes through the broker, counted: batches, kinds of messages, and meters of each size."""
