"""The broker registers with the name servers."""
