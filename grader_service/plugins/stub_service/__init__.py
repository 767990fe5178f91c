"""A service that is none: it takes trials as the real one does, and tests say what comes of them.

For the tests of those who write harnesses. No judge, no database, nothing outside this process.
"""

from grader_service.plugins.stub_service.service import StubService
from grader_service.plugins.stub_service.trials import Received

__all__ = ["Received", "StubService"]
