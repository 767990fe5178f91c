"""The queue over Celery and Redis, and the one Celery configuration of senders and workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from celery import Celery
from kombu.exceptions import OperationalError
from kombu.transport.redis import Channel, QoS
from redis import Redis
from redis.exceptions import RedisError

from grader_service.errors import UnavailableError
from grader_service.records.canonical import digest

QUEUE: Final = "grade"
TASK: Final = "grade"


class _ForgetfulQoS(QoS):
    """The messages that a worker has not acknowledged; they may be forgotten.

    When the connection breaks while trials are being graded, kombu 5.7 puts their messages back,
    and acknowledges them later, on a channel that is closed by then. Either ends the whole worker
    with an AttributeError. Neither is needed: the pump publishes whatever is due.
    """

    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        if self.channel.connection is not None:
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if self.channel.connection is not None:
            super().reject(delivery_tag, requeue)


Channel.QoS = _ForgetfulQoS


def key_prefix(database_url: str) -> str:
    """Return what all keys of a service begin with: services may share one Redis.

    Workers take the ids of their own database only; an id of another one would be lost on them.
    """
    return f"autograder:{digest(database_url.encode())[:12]}:"


def celery_config(broker_url: str, prefix: str) -> dict[str, Any]:
    """Return the configuration. Each odd setting avoids a measured or known failure."""
    return {
        "broker_url": broker_url,
        # Nobody reads results: the row is the truth.
        "result_backend": None,
        "task_ignore_result": True,
        # Never pickle: whoever can write to the broker could run code.
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_default_queue": QUEUE,
        # A slow job reserves no more than the pool; it is acked when it ends.
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "worker_prefetch_multiplier": 1,
        # Flips in Celery 6; a lost connection must not abort paid calls.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_acquire_timeout": 5,
        "task_publish_retry": True,
        "task_publish_retry_policy": {
            "max_retries": 1,
            "interval_start": 0.05,
            "interval_step": 0.1,
            "interval_max": 0.2,
        },
        "broker_transport_options": {
            # Far beyond the longest job: the row's lease decides on redelivery, not Redis.
            "visibility_timeout": 1800,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            # Without these a worker stays deaf after a network black-hole.
            "socket_timeout": 10,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "health_check_interval": 5,
            "client_name": "autograder",
            "global_keyprefix": prefix,
        },
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": False,
    }


class CeleryQueue:
    """Sends grading ids as Celery tasks, by name. Thread-safe."""

    def __init__(self, broker_url: str, prefix: str) -> None:
        self._prefix = prefix
        self._app = Celery("autograder", set_as_current=False)
        self._app.conf.update(celery_config(broker_url, prefix))
        self._redis = Redis.from_url(
            broker_url, socket_timeout=5, socket_connect_timeout=3, health_check_interval=5
        )

    def publish(self, grading_ids: Sequence[str]) -> None:
        try:
            with self._app.producer_pool.acquire(block=True, timeout=5) as producer:
                for grading_id in grading_ids:
                    self._app.send_task(TASK, args=[grading_id], producer=producer)
        except (OperationalError, RedisError, OSError) as error:
            raise _unavailable(error) from error

    def depth(self) -> int:
        try:
            return int(self._redis.llen(self._prefix + QUEUE))
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    def lost_data(self) -> bool:
        try:
            # The key is gone exactly when everything else is.
            return bool(self._redis.set(self._prefix + "epoch", "1", nx=True))
        except (RedisError, OSError) as error:
            raise _unavailable(error) from error

    def close(self) -> None:
        self._redis.close()
        self._app.close()


def _unavailable(error: Exception) -> UnavailableError:
    return UnavailableError(
        f"the broker did not answer: {error}",
        fix="see that Redis runs at AUTOGRADER_BROKER_URL; accepted trials wait in the database",
    )
