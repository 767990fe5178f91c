"""The composition root: builds each process from settings. Any part can be passed in."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from grader_service.errors import SetupError
from grader_service.grading.judges import Judges
from grader_service.grading.leases import Leases, Slots
from grader_service.grading.limits import ProviderLimit, ProviderLimits, shared_limits
from grader_service.grading.pump import Pump
from grader_service.grading.queue import Queue
from grader_service.grading.service import Service
from grader_service.grading.work import Grader, Retry
from grader_service.judging.judge import Judge, JudgeConfig
from grader_service.judging.pricing import TokenPrice
from grader_service.providers import build_provider
from grader_service.providers.base import ProviderConfig
from grader_service.settings import JudgeSettings, Settings
from grader_service.storage.blobs import BlobStore
from grader_service.storage.database import Database
from grader_service.storage.ids import new_id


def build_judges(settings: Settings) -> Judges:
    """Return the configured judges. A judge whose key is missing is a SetupError."""
    configs: dict[str, JudgeConfig] = {}
    for name, judge in settings.configured_judges().items():
        # A server of one's own often needs no key, but the SDKs refuse to start without one.
        key = judge.api_key() or ("unused" if judge.base_url else None)
        if key is None:
            raise SetupError(
                f"the judge {name!r} has no key",
                fix=f"set {judge.key_variable} in the environment",
            )
        configs[name] = judge_config(
            name, judge, api_key=key, max_connections=2 * settings.concurrency
        )
    return Judges(configs, settings.default_judge_name())


def judge_config(
    name: str, judge: JudgeSettings, *, api_key: str, max_connections: int = 1
) -> JudgeConfig:
    """Return the judge that settings describe, asking with `api_key`."""
    price = judge.price
    return JudgeConfig(
        name=name,
        provider=ProviderConfig(
            kind=judge.provider,
            model=judge.model,
            base_url=judge.base_url,
            api_key=api_key,
            effort=judge.effort,
            max_connections=max_connections,
        ),
        max_tokens=judge.max_tokens,
        deadline_s=judge.deadline_s,
        stub=judge.stub,
        price=None if price is None else TokenPrice(price.input_mtok, price.output_mtok),
    )


def build_limits(settings: Settings, judges: Judges) -> ProviderLimits:
    """Return a worker's part in what all workers together may ask of each provider."""
    from grader_service.grading.celery_queue import key_prefix

    limits = shared_limits(
        {
            name: ProviderLimit.of(
                judges.by_name[name].provider, judge.rate_per_minute, judge.concurrency
            )
            for name, judge in settings.configured_judges().items()
        }
    )
    if judges.default is not None:
        limits[""] = limits[judges.default]
    return ProviderLimits(
        limits,
        url=settings.broker_url,
        prefix=key_prefix(settings.database),
        lease_s=settings.lease_s,
        first_wait_s=settings.retry_base_s,
        # Short enough that the end of an outage is soon noticed.
        longest_wait_s=min(16 * settings.retry_base_s, settings.retry_cap_s),
    )


def build_service(
    settings: Settings, *, database: Database | None = None, blobs: BlobStore | None = None
) -> Service:
    """Return what an API process needs."""
    return Service(
        database=database
        or Database(settings.database, pool_size=16, wait_s=settings.database_wait_s),
        blobs=blobs or BlobStore(settings.blobs),
        judges=build_judges(settings),
        gradable_share=settings.gradable_share,
        stuck_after_s=settings.stuck_after_s,
    )


@dataclass
class Worker:
    """What a worker process needs."""

    grader: Grader
    pump: Pump
    queue: Queue
    slots: Slots


def build_worker(
    settings: Settings,
    *,
    database: Database | None = None,
    blobs: BlobStore | None = None,
    queue: Queue | None = None,
) -> Worker:
    """Return a worker: one client for each judge, built here, in the process that uses it."""
    if settings.broker_url is None and queue is None:
        raise SetupError(
            "a worker needs a broker",
            fix="set AUTOGRADER_BROKER_URL=redis://…, or use `autograder up`",
        )
    database = database or Database(
        settings.database, pool_size=settings.concurrency + 4, wait_s=settings.database_wait_s
    )
    judges = build_judges(settings)
    secret = settings.secret_bytes()
    limits = build_limits(settings, judges)
    leases = Leases(database, lease_s=settings.lease_s)
    node = settings.node or f"{socket.gethostname()}:{new_id()[-8:]}"
    if queue is None:
        # Only workers talk to the broker; an API starts sooner without Celery.
        from grader_service.grading.celery_queue import CeleryQueue, key_prefix

        queue = CeleryQueue(str(settings.broker_url), key_prefix(settings.database))
    grader = Grader(
        database=database,
        blobs=blobs or BlobStore(settings.blobs),
        judges={
            name: Judge(config, build_provider(config.provider), secret)
            for name, config in judges.by_name.items()
        },
        default_judge=judges.default,
        leases=leases,
        node=node,
        retry=Retry(settings.retry_base_s, settings.retry_cap_s),
        limits=limits,
    )
    slots = Slots(settings.concurrency)
    pump = Pump(
        database=database,
        queue=queue,
        leases=leases,
        slots=slots,
        node=node,
        boot_id=new_id(),
        judges=judges.claimable(),
        every_s=settings.pump_s,
        stale_s=settings.stale_s,
        limits=limits,
    )
    return Worker(grader, pump, queue, slots)
