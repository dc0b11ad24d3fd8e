"""Annotation, folders of data sets, and rendered scenes."""
