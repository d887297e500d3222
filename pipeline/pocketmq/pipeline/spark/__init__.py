"""Spark's classes: sources, sink, session, figures, and what a cluster's executors need."""
