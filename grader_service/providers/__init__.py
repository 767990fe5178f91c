"""Providers: one call to a model, and what its failures mean. The only home of the SDKs."""

from grader_service.providers.factory import build_provider

__all__ = ["build_provider"]
