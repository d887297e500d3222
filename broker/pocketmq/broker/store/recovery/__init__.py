"""Opening and leaving a store: what is believed of the files that a process left behind."""
