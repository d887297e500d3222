"""Messages by hand: read, shown, exported, imported, sent again."""
