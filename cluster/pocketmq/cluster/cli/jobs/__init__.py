"""Commands of long work: the pipeline's jobs, `store`, `demo` and `lab`."""
