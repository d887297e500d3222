"""What runs beside the reading in each process: its event loop, its log, what it has read."""
