"""Many stored records as columns, without a Python loop over them."""
