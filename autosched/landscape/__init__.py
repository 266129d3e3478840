"""Recorded outcomes of many schedules of one workload, in one file. Knows no strategy."""

from autosched.landscape.landscape import Landscape, Point, load, names, place, shipped

__all__ = ["Landscape", "Point", "load", "names", "place", "shipped"]
