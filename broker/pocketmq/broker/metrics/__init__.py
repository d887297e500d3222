"""What a broker counts and tells as metrics."""
