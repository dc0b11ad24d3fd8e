"""The commands that ``dejacue`` gets from this package."""
