"""The one log of all messages, and the pages that its next ones go to."""
