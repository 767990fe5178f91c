"""The stub model server: three wires, answers that follow from the content, faults on demand.

For demos and tests without a model. What it says is no judgement.
"""

from grader_service.providers.stub.server import StubModel

__all__ = ["StubModel"]
