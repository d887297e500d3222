"""What all commands share: the nameserver's option, tables, `-o`, completion, progress."""
