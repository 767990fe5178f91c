"""Judging: rubrics, frames, the prompt, what a reply means, and the judge itself."""
