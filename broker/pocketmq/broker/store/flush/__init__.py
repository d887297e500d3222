"""When data is on the disk, how far that is known, and how far consumers may see."""
