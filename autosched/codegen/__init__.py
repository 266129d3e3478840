"""Scheduled nests to Triton kernels. Only walks what steps left; decides nothing."""
