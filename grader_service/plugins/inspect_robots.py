"""The entry point of `inspect_robots.graders`.

The harness imports every plug-in whenever it starts, so nothing but the standard library is
imported before a grader is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grader_service.plugins.harness.grader import AutograderGrader


def autograder(**options: Any) -> AutograderGrader:
    """Make the grader that submits trials to a running service; `options` are the harness' `-G`.

    Raises the harness' ConfigError for a wrong option, and for a service that can't be used.
    """
    from grader_service.plugins.harness.grader import AutograderGrader
    from grader_service.plugins.harness.options import read_options

    grader = AutograderGrader(read_options(options))
    grader.preflight()
    return grader
