"""The command line: `autograder`. One module for each group of commands."""
