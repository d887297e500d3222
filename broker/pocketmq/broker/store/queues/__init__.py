"""One queue of a topic: its entries, and what they say without a look at a file."""
