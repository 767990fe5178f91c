"""Records of trials, and verdicts on them: values only, no I/O."""
