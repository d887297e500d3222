"""Users, rules, and which rule decides: what roles share of ACL 2.0."""
