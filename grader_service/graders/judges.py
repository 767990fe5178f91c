"""Judges for graders in process, built from the same settings as those of a worker."""

from __future__ import annotations

import secrets

from grader_service.bootstrap import build_judges
from grader_service.errors import SetupError
from grader_service.judging.judge import Judge
from grader_service.providers import build_provider
from grader_service.settings import JudgeSettings, Settings


def build_judge(name: str | None = None) -> Judge:
    """Return a judge of the settings, or the one that provider:model[@base_url] names.

    Raises SetupError where none is configured or its key is missing.
    """
    settings = Settings.load()
    name = name or settings.default_judge_name()
    if name is None:
        raise SetupError(
            "no judge is configured, and no key of a vendor is in the environment",
            fix="set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a model of your own: "
            "openai:MODEL@http://HOST/v1",
        )
    return judge_of(name, settings.configured_judges().get(name) or JudgeSettings.parse(name))


def judge_of(name: str, judge: JudgeSettings) -> Judge:
    """Return the judge that settings describe. Raises SetupError when its key is missing.

    The secret behind its prompts' marks lives as long as this process: nobody checks them later.
    """
    only = {"judges": {name: judge}, "default_judge": name}
    settings = Settings.load().model_copy(update=only)
    config = build_judges(settings).by_name[name]
    return Judge(config, build_provider(config.provider), secrets.token_bytes(32))
