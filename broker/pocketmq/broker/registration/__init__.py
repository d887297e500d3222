"""Registration with the name servers."""
