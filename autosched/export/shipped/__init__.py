"""What goes into an exported folder as it is, under the same names.

These files know nothing of this package: beside each other they need Python, torch and a driver of
CUDA, or a C compiler.
"""
