"""Folders of dynamic scenes (NeRF) → clips, as plug-ins of dejacue.data.layouts."""
