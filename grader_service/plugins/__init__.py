"""Plug-ins of other programs: the robot harness, and pytest."""
