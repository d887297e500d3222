"""Messages go out: checks, reads, pulls that wait, where broadcasting groups pull."""
