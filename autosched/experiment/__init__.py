"""Experiments: arms compared over recorded landscapes, from one YAML file to one folder."""
