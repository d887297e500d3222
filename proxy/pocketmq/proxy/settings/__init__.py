"""What SDKs are told to do and what they said of themselves (G-20 to G-28). Pure."""
