"""What users say: options and their checks, offsets as JSON, columns, and conditions of a query."""
