"""A broker's store directories: files, plans of reads, and what a task reads. Never writes."""
