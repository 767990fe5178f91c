from __future__ import annotations

from typing import Any

import pytest

from grader_service.providers.stub.script import ScriptError, read_rules


@pytest.mark.parametrize(
    "rules",
    [
        {"match": {}},
        [{"match": {}}],
        [{"replies": []}],
        [{"replies": [{}]}],
        [{"replies": [{"verdict": "success", "fault": "500"}]}],
        [{"replies": [{"verdict": "maybe"}]}],
        [{"replies": [{"fault": "teapot"}]}],
        [{"replies": [{"verdict": "success", "met": {"a": "perhaps"}}]}],
        [{"replies": [{"verdict": "success"}], "latency": -1}],
        [{"match": {"txt": "x"}, "replies": [{"verdict": "success"}]}],
    ],
)
def test_a_script_with_a_mistake_is_refused(rules: Any) -> None:
    with pytest.raises(ScriptError, match="script"):
        read_rules(rules)


def test_a_script_is_read_in_its_json_form() -> None:
    (rule,) = read_rules(
        [
            {
                "match": {"text": "cube", "key": None},
                "replies": [{"fault": "429;ra=2"}, {"verdict": "failure", "met": {"a": "no"}}],
                "latency": 0.5,
            }
        ]
    )
    assert [reply.fault for reply in rule.replies] == ["429;ra=2", None]
    assert not rule.needs_key
