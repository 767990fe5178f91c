"""Trials of `inspect_robots`: handed to a service without holding up the robot, or saved whole."""
