"""State that all workers share in Redis, changed by one script, with a stand-in for outages."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from redis import Redis

_log = logging.getLogger(__name__)

# A dead host must not cost every call its timeout.
_TIMEOUT_S: Final = 1.0
_ASK_AGAIN_S: Final = 1.0


class SharedState:
    """Runs a Lua script on Redis, or on one inside this process while there is none. Thread-safe.

    Without a `url` there is never one. After a failure Redis is asked again a second later.
    """

    def __init__(self, script: str, url: str | None) -> None:
        self._source = script
        self._redis = None if url is None else _redis(url)
        self._shared = None if self._redis is None else self._redis.register_script(script)
        self._ask_again = 0.0
        self._away = False
        # Protects the making of `_alone`.
        self._lock = threading.Lock()
        self._alone: Callable[..., Any] | None = None

    def run(self, keys: Sequence[str], arguments: Callable[[bool], Sequence[str | float]]) -> Any:
        """Run the script and return what it returns.

        `arguments` is called with whether all workers share the state that the script will see.
        """
        if self._shared is not None and time.monotonic() >= self._ask_again:
            # An API process, which imports this module, needs no Redis.
            from redis.exceptions import RedisError

            try:
                result = self._shared(keys=keys, args=arguments(True))
            except (RedisError, OSError) as error:
                self._ask_again = time.monotonic() + _ASK_AGAIN_S
                if not self._away:
                    self._away = True
                    _log.warning("each worker keeps its own limits while Redis is away: %s", error)
            else:
                if self._away:
                    self._away = False
                    _log.warning("Redis is back: all workers share their limits again")
                return result
        return self._stand_in()(keys=keys, args=arguments(False))

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()

    def _stand_in(self) -> Callable[..., Any]:
        with self._lock:
            if self._alone is None:
                from fakeredis import FakeRedis, FakeServer

                redis = FakeRedis(server=FakeServer(), decode_responses=True)
                self._alone = redis.register_script(self._source)
            return self._alone


def _redis(url: str) -> Redis:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        # Once more, since the connection may have gone stale.
        retry=Retry(NoBackoff(), 1),
    )
