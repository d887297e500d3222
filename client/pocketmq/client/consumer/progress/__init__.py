"""How far a group has come in each queue, where that is kept, and where it begins (C-33, C-65)."""
