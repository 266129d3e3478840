"""The space of schedules: nests, steps, sketches and what bounds them. Standard library only."""
