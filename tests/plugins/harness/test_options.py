"""Options of the grader, as the harness parses them and as the environment gives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_robots import cli
from inspect_robots.errors import ConfigError

from grader_service.plugins.harness.options import Options, read_options


def from_command_line(*texts: str, **environ: str) -> Options:
    """Return the options that `-G` texts give."""
    pairs = [text.split("=", 1) for text in texts]
    parse: Any = vars(cli)["_parse_value"]
    return read_options({name: parse(value) for name, value in pairs}, environ)


def test_without_any_option_trials_go_to_this_machine_under_a_run_of_their_own() -> None:
    one, other = read_options({}, {}), read_options({}, {})
    assert one.url == "http://127.0.0.1:8400"
    assert one.run != other.run
    assert (one.rubric, one.judge, one.wait, one.timeout) == (None, None, False, 120.0)
    assert (one.abstain, one.flush) == (False, 10.0)


def test_what_is_given_beats_the_environment_which_beats_the_default() -> None:
    options = from_command_line(
        "url=http://a:1/base/",
        "run=mine",
        AUTOGRADER_URL="http://b:1",
        AUTOGRADER_RUN="theirs",
        AUTOGRADER_JUDGE="careful",
        AUTOGRADER_RUBRIC="",
    )
    assert (options.url, options.run, options.judge) == ("http://a:1/base", "mine", "careful")
    assert (options.rubric, options.timeout) == (None, 120.0)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("run=007", "run", "7"),
        ("run='007'", "run", "007"),
        ("run=1_000", "run", "1000"),
        ("judge=12", "judge", "12"),
        ("rubric=Is the cup = full?", "rubric", "Is the cup = full?"),
        ("url=https://user.example:8400/x", "url", "https://user.example:8400/x"),
        ("wait=true", "wait", True),
        ("wait=1", "wait", True),
        ("wait=off", "wait", False),
        ("timeout=30", "timeout", 30.0),
        ("timeout=1e3", "timeout", 1000.0),
        ("flush=0", "flush", 0.0),
        ("flush=", "flush", 10.0),
        ("judge=none", "judge", None),
        ("pending=abstain", "abstain", True),
        ("pending=zero", "abstain", False),
        ("spool=/data/spool", "spool", Path("/data/spool")),
    ],
)
def test_a_value_is_taken_as_the_harness_reads_it(text: str, name: str, value: Any) -> None:
    assert getattr(from_command_line(text), name) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("wait", "True", True),
        ("wait", "no", False),
        ("timeout", "2.5", 2.5),
        ("run", "007", "007"),
        ("pending", "abstain", True),
        ("flush", "3", 3.0),
    ],
)
def test_the_environment_gives_every_option_as_text(name: str, text: str, value: Any) -> None:
    options = read_options({}, {f"AUTOGRADER_{name.upper()}": text})
    assert getattr(options, {"pending": "abstain"}.get(name, name)) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rubrik=x", "no option 'rubrik'.\nfix: use -G rubric=..."),
        ("zzz=1", "no option 'zzz'.\nfix: its options are url, run, "),
        ("run=1e3", "-G run is 1000.0, not a text"),
        ("run=true", "-G run is True, not a text"),
        ("run=' '", "-G run is no name"),
        (f"run={'x' * 201}", "-G run is no name"),
        ("judge=a\tb", "-G judge is no name"),
        ("url=lab:8400", "-G url is no address of a service"),
        ("url=ftp://lab", "-G url is no address of a service"),
        ("url=http://", "-G url is no address of a service"),
        ("url=http://lab:99999", "-G url is no address of a service"),
        ("url=http://lab/?key=1", "-G url is no address of a service"),
        ("url=http://ana:secret@lab", "-G url carries a password"),
        ("wait=maybe", "-G wait is 'maybe', neither true nor false"),
        ("wait=2", "-G wait is 2, neither true nor false"),
        ("timeout=soon", "-G timeout is 'soon', no number of seconds"),
        ("timeout=-1", "-G timeout is -1, no number of seconds"),
        ("timeout=inf", "-G timeout is inf, no number of seconds"),
        ("timeout=nan", "-G timeout is nan, no number of seconds"),
        ("flush=true", "-G flush is True, no number of seconds"),
        ("pending=fail", "-G pending is 'fail', neither 'zero' nor 'abstain'"),
    ],
)
def test_a_wrong_option_is_named_with_a_way_out(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        from_command_line(text)
    assert message in str(raised.value)
    assert "\nfix: " in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_wrong_variable_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match="AUTOGRADER_TIMEOUT is 'soon'"):
        read_options({}, {"AUTOGRADER_TIMEOUT": "soon"})
