"""The index by key: a hash table over as many files as it takes."""
