"""The tables in `config/*.json`: read at start, saved after a change."""
