"""Half messages that SDKs may still commit or roll back (G-70 to G-73). Pure."""
