"""Timer messages: any delivery time up to three days ahead, and taking one back (T-101 on)."""
