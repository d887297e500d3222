"""What is refused when there is too much to do."""
