"""Messages come in: checks, what is stored, the answers; also those that a consumer sends back."""
