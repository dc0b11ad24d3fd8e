"""The release, its protocol, layouts of scenes, and synthetic histories."""
