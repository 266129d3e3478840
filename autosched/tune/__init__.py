"""Searching for fast schedules: strategies that ask and are told, and the loop that measures."""
