"""What makes a consumer a member of its group, whichever way it receives (C-15, C-27)."""
