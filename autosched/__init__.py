"""Fast GPU kernels for tensor computations, found by search and served from a log."""
