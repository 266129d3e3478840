"""Whole models: the workloads that one runs, and layers that a log serves."""
