"""Commands that send, receive, follow and explain messages."""
