"""Verdicts back into the logs that `inspect_robots` saved."""
