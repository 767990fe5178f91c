"""Graders that capture a verdict in this process: a model that is asked, or a person."""

from grader_service.graders.builtin import llm_judge, operator, service, vlm
from grader_service.graders.registry import Grader, grader, grader_names, resolve_grader

__all__ = [
    "Grader",
    "grader",
    "grader_names",
    "llm_judge",
    "operator",
    "resolve_grader",
    "service",
    "vlm",
]
