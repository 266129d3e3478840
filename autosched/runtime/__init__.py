"""Serving tuned kernels from a log. Knows nothing of how they were found."""
