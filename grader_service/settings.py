"""Settings, from the environment only. Read by entry points and by bootstrap, nowhere else."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from grader_service.errors import SetupError, UsageError

# What is used when a vendor's key is there and no judge is named.
_DEFAULT_MODELS = {"openai": "gpt-6-luna", "anthropic": "claude-haiku-5-5"}
_KEYS = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
_SHORT = re.compile(r"(?P<provider>[a-z-]+):(?P<model>[^@]+)(?:@(?P<base_url>https?://.+))?")


def _judge_from_text(value: Any) -> Any:
    """Take "provider:model" and "provider:model@base_url" for the object form."""
    if not isinstance(value, str):
        return value
    match = _SHORT.fullmatch(value)
    if match is None:
        raise ValueError(f"{value!r} is not provider:model or provider:model@base_url")
    return match.groupdict()


class PriceSettings(BaseModel):
    """US dollars for a million tokens. Zero is a price; a judge without any has an unknown one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_mtok: Decimal = Field(ge=0, le=10_000)
    output_mtok: Decimal = Field(ge=0, le=10_000)


class JudgeSettings(BaseModel):
    """One judge. The key is read from the variable `api_key_env` (default: the vendor's own)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["openai", "openai-responses", "anthropic"]
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    effort: str | None = None
    max_tokens: int = Field(default=4096, ge=64)
    deadline_s: float = Field(default=120.0, gt=0, le=1500)
    stub: bool = False
    price: PriceSettings | None = None
    # What all workers together may ask of the model: calls a minute, and calls at a time.
    rate_per_minute: float | None = Field(default=None, ge=0.01, le=1_000_000)
    concurrency: int | None = Field(default=None, ge=1, le=100_000)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the judge that "provider:model[@base_url]" is. Raises UsageError."""
        try:
            return cls.model_validate(_judge_from_text(text))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is neither a configured judge nor provider:model",
                fix="name one of AUTOGRADER_JUDGES, or write for example openai:gpt-6-luna",
            ) from error

    @property
    def key_variable(self) -> str:
        return self.api_key_env or _KEYS[self.provider]

    def api_key(self) -> str | None:
        return os.environ.get(self.key_variable) or None


class Settings(BaseSettings):
    """Everything that can be set, each as AUTOGRADER_<NAME>."""

    model_config = SettingsConfigDict(env_prefix="AUTOGRADER_", extra="ignore", frozen=True)

    home: Path = Path(".autograder")
    host: str = "127.0.0.1"
    port: int = Field(default=8400, ge=0, le=65535)
    trusted_network: bool = False
    database_url: str | None = None
    database_wait_s: float = Field(default=30.0, gt=0)
    broker_url: str | None = None
    blobs_url: str | None = None
    secret: SecretStr | None = None

    judges: dict[str, Annotated[JudgeSettings, BeforeValidator(_judge_from_text)]] = {}
    default_judge: str | None = None

    node: str | None = None
    concurrency: int = Field(default=16, ge=1, le=512)
    lease_s: float = Field(default=30.0, gt=0)
    pump_s: float = Field(default=0.25, gt=0)
    stale_s: float = Field(default=30.0, gt=0)
    stuck_after_s: float = Field(default=30.0, gt=0)
    # Waits between tries grow from the first to the second; tests and demos shorten them.
    retry_base_s: float = Field(default=2.0, gt=0)
    retry_cap_s: float = Field(default=300.0, gt=0)

    max_body_bytes: int = Field(default=64_000_000, ge=1)
    max_part_bytes: int = Field(default=32_000_000, ge=1)
    max_parts: int = Field(default=64, ge=1)
    body_timeout_s: float = Field(default=60.0, gt=0)
    gradable_share: float = Field(default=0.8, ge=0, le=1)

    @classmethod
    def load(cls, **overrides: Any) -> Settings:
        """Read the environment. Raises SetupError that names the variable."""
        try:
            return cls(**overrides)
        except ValidationError as error:
            first = error.errors()[0]
            name = "_".join(str(part) for part in first["loc"][:1]).upper()
            where = ".".join(str(part) for part in first["loc"][1:])
            raise SetupError(
                f"AUTOGRADER_{name}{f' ({where})' if where else ''}: {first['msg']}",
                fix="correct the variable; docs/settings.md lists all of them",
            ) from error
        except Exception as error:
            # pydantic-settings' own error for a variable that should be JSON and is not.
            raise SetupError(
                f"the settings can't be read: {error}",
                fix="AUTOGRADER_JUDGES is a JSON object, for example "
                '{"default": "openai:gpt-6-luna"}',
            ) from error

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home.absolute() / 'autograder.db'}"

    @property
    def blobs(self) -> str:
        return self.blobs_url or str(self.home.absolute() / "blobs")

    def configured_judges(self) -> dict[str, JudgeSettings]:
        """Return the named judges, or one for each vendor whose key is in the environment."""
        if self.judges:
            return dict(self.judges)
        return {
            vendor: JudgeSettings(provider=vendor, model=model)
            for vendor, model in _DEFAULT_MODELS.items()
            if os.environ.get(_KEYS[vendor])
        }

    def default_judge_name(self) -> str | None:
        """Return the judge that grades what names none. Raises SetupError if it isn't there."""
        names = list(self.configured_judges())
        if self.default_judge is None:
            return names[0] if names else None
        if self.default_judge not in names:
            raise SetupError(
                f"AUTOGRADER_DEFAULT_JUDGE is {self.default_judge!r}, which is no judge",
                fix=f"set it to one of {names}, or add it to AUTOGRADER_JUDGES",
            )
        return self.default_judge

    def secret_bytes(self) -> bytes:
        """Return the service's secret: from the environment, else kept in the home folder.

        API and workers on several machines need the same AUTOGRADER_SECRET for receipts that can
        be told to be theirs; with another one grading works all the same.
        """
        if self.secret is not None:
            return self.secret.get_secret_value().encode()
        path = self.home / "secret"
        try:
            if not path.exists():
                _make_secret(path)
            return path.read_bytes()
        except OSError as error:
            raise SetupError(
                f"can't keep a secret in {path}: {error.strerror}",
                fix="set AUTOGRADER_SECRET, or AUTOGRADER_HOME to a folder that can be written",
            ) from error


def _make_secret(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and linked into place: no other process ever reads half of it.
    draft = path.with_name(f"secret.{secrets.token_hex(8)}")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_hex(32))
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    draft.unlink()
