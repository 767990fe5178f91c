"""Settings come from the environment, and a wrong one is named."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from grader_service.bootstrap import build_judges
from grader_service.errors import SetupError, UsageError
from grader_service.judging.pricing import TokenPrice
from grader_service.settings import JudgeSettings, Settings


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AUTOGRADER_JUDGES",
        json.dumps(
            {
                "local": "openai:qwen3-vl@http://127.0.0.1:8000/v1",
                "vendor": {"provider": "anthropic", "model": "claude", "api_key_env": "LAB_KEY"},
            }
        ),
    )


def test_without_any_variable_everything_is_in_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load()
    assert settings.database.startswith("sqlite:///")
    assert settings.database.endswith("/.autograder/autograder.db")
    assert settings.host == "127.0.0.1"
    assert settings.configured_judges() == {}
    assert settings.default_judge_name() is None


@pytest.mark.usefixtures("judges")
def test_a_judge_can_be_written_in_one_line_or_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KEY", "sk-lab")
    judges = build_judges(Settings.load())
    assert judges.default == "local"
    local, vendor = judges.by_name["local"].provider, judges.by_name["vendor"].provider
    assert (local.kind, local.model, local.base_url) == (
        "openai",
        "qwen3-vl",
        "http://127.0.0.1:8000/v1",
    )
    assert (vendor.kind, vendor.model, vendor.api_key) == ("anthropic", "claude", "sk-lab")


@pytest.mark.usefixtures("judges")
def test_a_judge_whose_key_is_missing_is_named_with_its_variable() -> None:
    with pytest.raises(SetupError, match="vendor") as caught:
        build_judges(Settings.load())
    assert "LAB_KEY" in str(caught.value.fix)


def test_a_vendors_key_alone_makes_a_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk")
    assert list(Settings.load().configured_judges()) == ["anthropic"]
    assert Settings.load().default_judge_name() == "anthropic"


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    settings = Settings.load(secret="very-secret")
    assert "secret" not in repr(settings).replace("secret=", "")
    assert "sk-secret" not in repr(build_judges(settings))


@pytest.mark.usefixtures("judges")
def test_a_default_judge_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOGRADER_DEFAULT_JUDGE", "nobody")
    with pytest.raises(SetupError, match="AUTOGRADER_DEFAULT_JUDGE"):
        Settings.load().default_judge_name()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTOGRADER_PORT", "99999"),
        ("AUTOGRADER_CONCURRENCY", "0"),
        ("AUTOGRADER_LEASE_S", "-1"),
        ("AUTOGRADER_JUDGES", '{"a": {"provider": "openai", "model": "m", "surprise": 1}}'),
        ("AUTOGRADER_JUDGES", '{"a": "openai"}'),
    ],
)
def test_a_wrong_value_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SetupError, match=name):
        Settings.load()


def test_the_secret_is_made_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    settings = Settings.load(home=tmp_path / "home")
    secret = settings.secret_bytes()
    assert len(secret) == 64
    assert Settings.load(home=tmp_path / "home").secret_bytes() == secret
    assert ((tmp_path / "home" / "secret").stat().st_mode & 0o777) == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["secret"]


def test_every_setting_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "settings.md").read_text()
    for name in Settings.model_fields:
        assert f"`AUTOGRADER_{name.upper()}`" in page, name


def test_a_judges_price_is_exact_and_zero_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AUTOGRADER_JUDGES",
        '{"own": {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1",'
        ' "price": {"input_mtok": 0.1, "output_mtok": 0}}, "free": "openai:m@http://127.0.0.1:1"}',
    )
    judges = build_judges(Settings.load()).by_name
    assert judges["own"].price == TokenPrice(Decimal("0.1"), Decimal(0))
    assert judges["free"].price is None


@pytest.mark.parametrize(
    "price", ['{"input_mtok": 1}', '{"input_mtok": -1, "output_mtok": 1}', '"free"']
)
def test_half_a_price_or_a_negative_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, price: str
) -> None:
    monkeypatch.setenv(
        "AUTOGRADER_JUDGES",
        f'{{"own": {{"provider": "openai", "model": "m", "price": {price}}}}}',
    )
    with pytest.raises(SetupError, match=r"AUTOGRADER_JUDGES \(own.price"):
        Settings.load()


def test_a_judge_in_one_line_that_is_none_is_wrong_use() -> None:
    assert JudgeSettings.parse("openai:m@http://127.0.0.1:1/v1").base_url is not None
    for text in ("nobody", "nobody:m", "openai:"):
        with pytest.raises(UsageError, match="neither a configured judge"):
            JudgeSettings.parse(text)
