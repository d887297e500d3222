"""Receipt handles of received messages and when they are renewed (G-90 to G-97). Pure."""
