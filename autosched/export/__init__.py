"""Kernels ahead of time: a folder of binaries, a manifest and code that loads them.

What is in a folder needs torch, or a C compiler, and nothing of this package.
"""
