"""Errors, grouped by what whoever reads them must do.

Every message may carry a `fix`: one line that says what to do next. The HTTP status, the problem
type and the exit code of the command line are derived from the class, so a new error only has to
find its group.
"""

from __future__ import annotations

from typing import ClassVar


class AutograderError(Exception):
    """Base of every error that this project raises on purpose."""

    status: ClassVar[int] = 500
    slug: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    # What to do where the place that raises it knows nothing better.
    usual_fix: ClassVar[str | None] = None

    def __init__(self, message: str, *, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix or self.usual_fix

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.__dict__))

    def __str__(self) -> str:
        return self.message if self.fix is None else f"{self.message}\nfix: {self.fix}"


def _rebuild(cls: type[AutograderError], state: dict[str, object]) -> AutograderError:
    error = cls.__new__(cls)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


# --- whoever made the input changes it ---------------------------------------------------------


class InputError(AutograderError, ValueError):
    """The input is wrong. Change it; sending it again unchanged gives the same answer."""

    status = 422
    slug = "invalid-input"
    exit_code = 2
    usual_fix = "correct it and send it again"


class TrajectoryError(InputError):
    """An A320 trajectory can't be read: a corrupt line, no meta, an unknown schema."""

    slug = "invalid-trajectory"


class RecordError(InputError):
    """A trial record can't be read, or holds a value that can't be saved exactly."""

    slug = "invalid-record"
    usual_fix = "save the trial again, and send record.json with all of its columns"


class RubricError(InputError):
    """A rubric is not one: unknown key, duplicate id, empty text."""

    slug = "invalid-rubric"


class FrameError(InputError):
    """A frame is not an image that a judge may be shown."""

    slug = "invalid-frame"


class UsageError(InputError):
    """A command or request was put together wrongly."""

    slug = "wrong-use"
    status = 400


class TooSlowError(InputError):
    """The body did not come in time. The same request may well succeed the next time."""

    slug = "too-slow"
    status = 408


class TooLargeError(InputError):
    """The body or one of its parts is over its limit."""

    slug = "too-large"
    status = 413


class MediaTypeError(InputError):
    """The body is of a media type or encoding that is not taken."""

    slug = "unsupported-media-type"
    status = 415


class NotFoundError(AutograderError):
    """There is no such trial, run, frame or rubric."""

    status = 404
    slug = "not-found"
    exit_code = 2
    usual_fix = "check the id; GET /v1/trials lists what there is"


class ConflictError(AutograderError):
    """The id is taken by other content."""

    status = 409
    slug = "conflict"
    exit_code = 2


# --- wait and try again -------------------------------------------------------------------------


class UnavailableError(AutograderError):
    """The service, its database or its disk is not there now. Nothing was stored; try again."""

    status = 503
    slug = "unavailable"
    exit_code = 3

    def __init__(self, message: str, *, fix: str | None = None, retry_after: float = 5.0) -> None:
        super().__init__(message, fix=fix)
        self.retry_after = retry_after


class NoServiceError(UnavailableError):
    """Something else answers at the address: a wrong one, or a proxy whose service is not there."""


# --- whoever runs the service changes its set-up -------------------------------------------------


class SetupError(AutograderError):
    """The installation or its settings are wrong. No request can help; change the set-up."""

    slug = "wrong-setup"
    exit_code = 2


# --- a judge could not be asked, or answered nothing usable ---------------------------------------


class JudgeError(AutograderError):
    """Base of what goes wrong while a model is asked. `reason` is an ungraded reason code."""

    slug = "judge"

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        status_code: int | None = None,
        request_id: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message, fix=fix)
        self.reason = reason
        self.status_code = status_code
        self.request_id = request_id


class TryLaterError(JudgeError):
    """The provider may answer later. `counts` is false for waits that are nobody's fault (429)."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "provider_unavailable",
        retry_after: float | None = None,
        counts: bool = True,
        status_code: int | None = None,
        request_id: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(
            message, reason=reason, status_code=status_code, request_id=request_id, fix=fix
        )
        self.retry_after = retry_after
        self.counts = counts


class PermanentError(JudgeError):
    """Asking the same again can't help: wrong key, unknown model, spent quota, refused request."""


class BadOutputError(JudgeError):
    """The provider answered with bytes that are no response object."""
