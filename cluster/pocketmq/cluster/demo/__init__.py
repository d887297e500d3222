"""The flights demo: every flight that left New York in 2013, through a cluster of processes."""
