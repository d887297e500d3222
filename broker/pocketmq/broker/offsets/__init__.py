"""How far each group has consumed; queries, commits, resets."""
