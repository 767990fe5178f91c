"""robot-autograder: grades robot trials and scores their records."""

__version__ = "0.1.0"
