"""What a nameserver answers, one file per family of requests."""
