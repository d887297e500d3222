"""Messages of SDKs as stored ones, and the other way (G-64 to G-68, G-86 to G-89). Pure."""
