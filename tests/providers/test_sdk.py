"""Both SDKs, really calling a server that fails in every way it can."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, get_args

import pytest

from grader_service.errors import (
    BadOutputError,
    JudgeError,
    PermanentError,
    SetupError,
    TryLaterError,
)
from grader_service.judging.reply import answer_text, parse_reply
from grader_service.judging.rubric import Criterion, Rubric
from grader_service.providers import build_provider
from grader_service.providers.base import Kind, ProviderConfig, RungRefusedError
from grader_service.providers.stub import StubModel
from grader_service.providers.stub.faults import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from grader_service.providers.base import Answer, Ask, Provider

    Connect = Callable[..., Provider]
    MakeAsk = Callable[..., Ask]

KINDS: tuple[Kind, ...] = get_args(Kind)
SHORT_S = 0.4

# What each fault comes to: the class and reason of the error.
FAILS: dict[str, tuple[type[JudgeError], str]] = {
    "400": (PermanentError, "provider_rejected"),
    "401": (PermanentError, "provider_auth"),
    "402": (PermanentError, "provider_quota"),
    "403": (PermanentError, "provider_auth"),
    "404": (PermanentError, "provider_rejected"),
    "408": (TryLaterError, "provider_unavailable"),
    "409": (TryLaterError, "provider_unavailable"),
    "413": (PermanentError, "provider_rejected"),
    "422": (PermanentError, "provider_rejected"),
    "429": (TryLaterError, "provider_unavailable"),
    "500": (TryLaterError, "provider_unavailable"),
    "500;xsr=true": (TryLaterError, "provider_unavailable"),
    "501": (PermanentError, "provider_rejected"),
    "502": (TryLaterError, "provider_unavailable"),
    "503": (TryLaterError, "provider_unavailable"),
    "504": (TryLaterError, "provider_unavailable"),
    "505": (PermanentError, "provider_rejected"),
    "529": (TryLaterError, "provider_unavailable"),
    "quota": (PermanentError, "provider_quota"),
    "redirect": (PermanentError, "provider_rejected"),
    "html_502": (TryLaterError, "provider_unavailable"),
    "rst": (TryLaterError, "provider_unavailable"),
    "rst_mid": (TryLaterError, "provider_unavailable"),
    "short": (TryLaterError, "provider_unavailable"),
    "close": (TryLaterError, "provider_unavailable"),
    "hang": (TryLaterError, "timeout"),
    "drip": (TryLaterError, "timeout"),
    "drip_head": (TryLaterError, "timeout"),
    "drip;status=500": (TryLaterError, "provider_unavailable"),
    "huge": (BadOutputError, "reply_invalid"),
    "huge;status=500": (TryLaterError, "provider_unavailable"),
    "gzip_bomb": (BadOutputError, "reply_invalid"),
    "gzip_bomb;status=400": (PermanentError, "provider_rejected"),
    "html_200": (BadOutputError, "reply_invalid"),
    "bad_body": (BadOutputError, "reply_invalid"),
    "bad_utf8": (BadOutputError, "reply_invalid"),
    "array_body": (BadOutputError, "reply_invalid"),
    "null_body": (BadOutputError, "reply_invalid"),
    "dup_body": (BadOutputError, "reply_invalid"),
    "nan_body": (BadOutputError, "reply_invalid"),
    "deep_body": (BadOutputError, "reply_invalid"),
    "error_200": (TryLaterError, "provider_unavailable"),
    "error_200_quota": (PermanentError, "provider_quota"),
    "error_200_rejected": (PermanentError, "provider_rejected"),
}

# What an answer given under each fault comes to, by the reply grammar.
ANSWERS: dict[str, str | None] = {
    "wrong_ctype": None,
    "no_usage": None,
    "thinking": None,
    "fenced_json": None,
    "extra_keys": None,
    "text_grade": None,
    "reject": None,
    "no_choices": "reply_invalid",
    "length": "reply_truncated",
    "context": "reply_truncated",
    "refusal": "judge_refused",
    "content_filter": "judge_refused",
    "empty": "reply_empty",
    "null_content": "reply_empty",
    "thinking_only": "reply_empty",
    "malformed_json": "reply_invalid",
    "truncated_json": "reply_invalid",
    "dup_keys": "reply_invalid",
    "nan_conf": "reply_invalid",
    "bad_enum": "reply_invalid",
    "no_verdict": "reply_invalid",
    "dup_grade": "reply_conflicting",
    "conflicting": "reply_conflicting",
    "injection": "injection_suspected",
    "wrong_token": "reply_mismatched",
}

RUBRIC = Rubric(
    id="test/pad",
    title="Cube on the pad",
    kind="frames",
    expectation="The cube lies on the pad.",
    criteria=(
        Criterion(id="in_goal", text="In the LAST frame the cube lies on the pad."),
        Criterion(id="released", text="In the LAST frame nothing holds the cube."),
        Criterion(id="intact", text="No other object was knocked over.", required=False),
    ),
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


def said(answer: Answer) -> dict[str, Any]:
    """The reply object in an answer."""
    reply: dict[str, Any] = json.loads(answer_text(answer.wire, answer.body) or "")
    return reply


def test_every_fault_of_the_stub_has_an_expected_end() -> None:
    covered = {fault.partition(";")[0] for fault in FAILS} | set(ANSWERS)
    assert covered >= NAMES


@pytest.mark.parametrize("fault", FAILS)
def test_each_failure_has_one_consequence_and_costs_one_call(
    kind: Kind, fault: str, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    expected, reason = FAILS[fault]
    endless = fault.startswith(("hang", "drip"))
    # Where a status comes first, it must have come before the deadline.
    deadline_s = (1.0 if "status" in fault else SHORT_S) if endless else 20.0
    ask = make_ask(deadline_s=deadline_s)
    with pytest.raises(JudgeError) as caught:
        connect(kind, fault=fault).ask(ask)
    assert (type(caught.value), caught.value.reason) == (expected, reason)
    if isinstance(caught.value, TryLaterError):
        assert caught.value.counts == (fault != "429")
    assert [entry["headers"]["x-stainless-retry-count"] for entry in stub.log] == ["0"]


@pytest.mark.parametrize("fault", ANSWERS)
def test_each_spoilt_answer_comes_back_whole_for_the_grammar_to_judge(
    kind: Kind, fault: str, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    ask = make_ask(marked="t-00112233445566ff")
    stub.script([{"match": {}, "replies": [{"verdict": "success"}]}])
    answer = connect(kind, fault=fault).ask(ask)
    decision = parse_reply(answer.wire, answer.body, rubric=RUBRIC, token="t-00112233445566ff")
    expected = ANSWERS[fault]
    verdict = {None: "success", "injection_suspected": "abstain"}.get(expected)
    assert (decision.verdict, decision.reason) == (verdict, expected)
    assert len(stub.log) == 1


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [("429;ra=7", 7.0), ("503;ram=250", 0.25), ("429;ra=4294967295", 900.0), ("500", None)],
)
def test_the_wait_that_the_server_asks_for_arrives(
    kind: Kind, fault: str, seconds: float | None, connect: Connect, make_ask: MakeAsk
) -> None:
    with pytest.raises(TryLaterError) as caught:
        connect(kind, fault=fault).ask(make_ask())
    assert caught.value.retry_after == seconds
    assert (caught.value.request_id or "").startswith("req-stub-")


def test_an_endpoint_that_is_not_there_is_tried_later(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    with StubModel() as gone:
        url = gone.url
    with pytest.raises(TryLaterError) as caught:
        connect(kind, base_url=url).ask(make_ask())
    assert caught.value.counts


def test_a_redirect_is_not_followed_and_the_frames_are_not_sent_again(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    with StubModel() as elsewhere:
        with pytest.raises(PermanentError, match="elsewhere") as caught:
            connect(kind, fault=f"redirect:{elsewhere.port}").ask(make_ask())
        assert elsewhere.log == []
    assert caught.value.status_code == 307


def test_nothing_that_the_environment_says_reaches_the_request(
    kind: Kind,
    connect: Connect,
    make_ask: MakeAsk,
    stub: StubModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(kind).ask(make_ask())
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_BASE_URL", "http://127.0.0.1:9/v1")
        monkeypatch.setenv(f"{vendor}_API_KEY", "key-of-the-environment")
        headers = "x-extra: 1\nauthorization: Bearer other\nX-Api-Key: other\ncookie: a=b"
        monkeypatch.setenv(f"{vendor}_CUSTOM_HEADERS", headers)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin-1")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-1")
    connect(kind).ask(make_ask())
    before, after = (set(entry["headers"]) for entry in stub.log)
    assert before == after
    carried = ["x-api-key"] if kind == "anthropic" else ["authorization"]
    assert [entry["auth"] for entry in stub.log] == [carried, carried]


def test_nothing_of_a_call_is_logged_even_at_debug_level(
    kind: Kind, connect: Connect, make_ask: MakeAsk, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("openai", "anthropic", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    with caplog.at_level(logging.DEBUG):
        connect(kind, api_key="key-unseen").ask(make_ask())
    assert "base64" not in caplog.text
    assert "key-unseen" not in caplog.text
    assert not any(record.name.startswith(("openai", "anthropic")) for record in caplog.records)


def test_threads_share_a_provider_and_each_gets_its_own_answer(
    kind: Kind, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    stub.script([{"match": {}, "latency": 0.1, "replies": [{"verdict": "success"}]}])
    provider = connect(kind, max_connections=64)
    tokens = [f"t-{number:016x}" for number in range(128)]

    def asked(token: str) -> str:
        echoed: str = said(provider.ask(make_ask(marked=token)))["token"]
        return echoed

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(asked, tokens)) == tokens


def test_more_threads_than_connections_wait_for_one(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    provider = connect(kind, max_connections=2)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(provider.ask, [make_ask()] * 16))
    assert len({json.dumps(said(answer)) for answer in answers}) == 1


@pytest.mark.parametrize("how", ["param", "message", "detail;status=422"])
def test_a_refused_effort_is_dropped_once_and_left_out_from_then_on(
    kind: Kind, how: str, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    effort = {
        "openai": "reasoning_effort",
        "openai-responses": "reasoning.effort",
        "anthropic": "output_config.effort",
    }[kind]
    provider = connect(kind, fault=f"reject:{effort};as={how}", effort="low")
    first, second = provider.ask(make_ask()), provider.ask(make_ask())
    assert len(stub.log) == 3
    assert first.parameters == second.parameters
    assert not any("effort" in name for name in first.parameters)


def test_an_accepted_effort_is_kept_for_the_record(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    parameters = connect(kind, effort="low").ask(make_ask()).parameters
    assert "low" in parameters.values()
    assert parameters["response_format"] == "json_schema"


@pytest.mark.parametrize("how", ["param", "message", "detail;status=422"])
def test_a_refused_form_of_answer_is_refused_from_then_on_without_a_call(
    kind: Kind, how: str, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    provider = connect(kind, fault=f"reject:response_format;as={how}")
    for _ in range(2):
        with pytest.raises(RungRefusedError) as caught:
            provider.ask(make_ask("json_schema"))
        assert caught.value.rung == "json_schema"
    assert len(stub.log) == 1
    answer = provider.ask(make_ask("text"))
    assert answer.rung == "text"
    assert parse_reply(answer.wire, answer.body, rubric=RUBRIC, token="t-0").verdict is not None


def test_a_refusal_that_names_nothing_we_sent_is_permanent_at_once(
    kind: Kind, connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    with pytest.raises(PermanentError) as caught:
        connect(kind, fault="reject:model", effort="low").ask(make_ask())
    assert caught.value.reason == "provider_rejected"
    assert len(stub.log) == 1


def test_token_counts_have_the_same_names_on_every_wire(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    usage = connect(kind).ask(make_ask()).usage
    assert usage is not None
    assert usage["input_tokens"] > 1000
    assert usage["output_tokens"] > 50
    assert connect(kind, fault="no_usage").ask(make_ask()).usage is None


def test_the_same_trial_gets_the_same_answer_on_every_wire(
    connect: Connect, make_ask: MakeAsk, stub: StubModel
) -> None:
    answers = [said(connect(each).ask(make_ask())) for each in KINDS]
    assert answers[0] == answers[1] == answers[2]
    assert len({entry["key"] for entry in stub.log}) == 1


def test_a_closed_provider_can_be_asked_again(
    kind: Kind, connect: Connect, make_ask: MakeAsk
) -> None:
    provider = connect(kind)
    provider.warm()
    provider.close()
    provider.close()
    assert provider.ask(make_ask()).rung == "json_schema"


def test_without_its_sdk_a_provider_says_what_to_install(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "anthropic" if kind == "anthropic" else "openai"
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SetupError, match=r"robot-autograder\[server\]"):
        build_provider(ProviderConfig(kind, "m", api_key="k"))


def in_a_process(script: str, *arguments: str) -> str:
    """Run a script in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_building_a_provider_loads_no_sdk() -> None:
    loaded = in_a_process("""
        import sys
        from grader_service.providers import build_provider
        from grader_service.providers.base import ProviderConfig
        for kind in ("openai", "openai-responses", "anthropic"):
            build_provider(ProviderConfig(kind, "m", api_key="k"))
        print([name for name in ("openai", "anthropic") if name in sys.modules])
    """)
    assert loaded.strip() == "[]"


def test_forked_processes_never_get_each_others_answers(stub: StubModel) -> None:
    stub.script([{"match": {}, "latency": 0.02, "replies": [{"verdict": "success"}]}])
    out = in_a_process(
        """
        import json, os, sys
        from grader_service.judging.reply import answer_text
        from grader_service.providers import build_provider
        from grader_service.providers.base import Ask, ProviderConfig

        def wrong(provider, name):
            count = 0
            for number in range(15):
                token = f"t-{name:08x}{number:08x}"
                ask = Ask("grade", (f"Trial token: {token}",), "json_schema", {})
                answer = provider.ask(ask)
                count += json.loads(answer_text(answer.wire, answer.body))["token"] != token
            return count

        for kind in ("openai", "anthropic"):
            provider = build_provider(ProviderConfig(kind, "m", sys.argv[1], "k"))
            assert wrong(provider, 0) == 0
            children = []
            for name in range(1, 4):
                child = os.fork()
                if child == 0:
                    os._exit(wrong(provider, name))
                children.append(child)
            mine = wrong(provider, 0)
            theirs = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            print(kind, mine, theirs)
        """,
        stub.url,
    )
    assert out.splitlines() == ["openai 0 [0, 0, 0]", "anthropic 0 [0, 0, 0]"]


def test_bodies_without_end_do_not_grow_the_process(stub: StubModel) -> None:
    out = in_a_process(
        """
        import resource, sys
        from grader_service.errors import JudgeError
        from grader_service.providers import build_provider
        from grader_service.providers.base import Ask, ProviderConfig

        def ask(kind, model):
            provider = build_provider(ProviderConfig(kind, model, sys.argv[1], "k"))
            try:
                provider.ask(Ask("grade", ("Trial token: t-0",), "text", {}))
            except JudgeError:
                pass

        for kind in ("openai", "anthropic"):
            ask(kind, "m")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for fault in ("huge", "gzip_bomb", "huge;status=500", "gzip_bomb;status=500"):
                ask(kind, f"stub:{fault}")
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            print(grown // (2**20 if sys.platform == "darwin" else 2**10))
        """,
        stub.url,
    )
    assert all(int(mebibytes) < 16 for mebibytes in out.split())
