"""Statistics and settings for admin tools."""
