"""Commands that start roles, show them, move their time and break them."""
