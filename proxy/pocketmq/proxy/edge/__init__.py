"""The RPCs: one file a family, over what the other folders decide and `client/` carries."""
