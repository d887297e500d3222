"""What can be asked of an open store: messages of a queue, offsets, messages by key."""
