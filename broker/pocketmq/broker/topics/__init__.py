"""Topic configurations: creation, change, deletion."""
