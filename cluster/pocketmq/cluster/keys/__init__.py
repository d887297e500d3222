"""What the roles of one cluster know each other by, kept in its data folder: `certificate.py`,
`member_secret.py`."""
