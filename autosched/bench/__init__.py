"""Honest comparison of served kernels with libraries. Tunes only through what it is handed."""
