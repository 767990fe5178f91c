"""Child processes and their ports."""

from __future__ import annotations

import socket

import pytest

from grader_service.cli.processes import wait_for_port


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_waited_for_on_either_family_of_addresses(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        assert wait_for_port(port, host=host, timeout_s=10)
    assert not wait_for_port(port, host=host, timeout_s=0.2)
