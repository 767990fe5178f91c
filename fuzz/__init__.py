"""Coverage-guided fuzzing of everything that reads bytes from outside. See README.md."""
