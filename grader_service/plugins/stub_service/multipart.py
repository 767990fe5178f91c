"""multipart/form-data, read whole from memory."""

from __future__ import annotations

from email.message import Message
from typing import Final

from grader_service.errors import InputError, MediaTypeError, TooLargeError, UsageError

# The service's own limits, where nobody sets others.
MAX_BODY: Final = 64_000_000
_MAX_PART: Final = 32_000_000
_MAX_PARTS: Final = 64


def read_parts(headers: Message, body: bytes) -> dict[str, bytes]:
    """Return the parts of a body by name.

    Raises MediaTypeError (415), TooLargeError (413), UsageError (400) for what is no multipart
    body, InputError (422) for a part that comes twice.
    """
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise MediaTypeError(
            f"Content-Encoding {encoding} is not taken", fix="send the body uncompressed"
        )
    boundary = headers.get_boundary()
    if headers.get_content_type() != "multipart/form-data" or not boundary:
        raise MediaTypeError(
            "the body is not multipart/form-data",
            fix="send a part 'trial' (JSON) and the parts that it names",
        )
    mark = b"\r\n--" + boundary.encode()
    before, *sections = (b"\r\n" + body).split(mark)
    if before:
        raise UsageError(
            "the multipart body does not begin with its boundary",
            fix="send nothing before the first part",
        )
    if not sections or not sections[-1].startswith(b"--"):
        raise UsageError("the multipart body ends before its last part does")
    if len(sections) - 1 > _MAX_PARTS:
        raise TooLargeError(
            f"the body has more than {_MAX_PARTS} parts", fix="send first and last frames only"
        )
    parts: dict[str, bytes] = {}
    for section in sections[:-1]:
        head, blank_line, data = section.partition(b"\r\n\r\n")
        name = _name(head)
        if not blank_line or name is None:
            raise UsageError("a part has no name", fix='give each part a name="…"')
        if len(data) > _MAX_PART:
            raise TooLargeError(
                f"the part {name!r} is over {_MAX_PART} bytes", fix="send a smaller frame or record"
            )
        if name in parts:
            raise InputError(f"the part {name!r} comes twice", fix="send each part once")
        parts[name] = data
    return parts


def _name(head: bytes) -> str | None:
    for line in head.decode("utf-8", "replace").split("\r\n"):
        field, _, value = line.partition(":")
        if field.strip().lower() == "content-disposition":
            message = Message()
            message["Content-Disposition"] = value.strip()
            name = message.get_param("name", header="Content-Disposition")
            return name if isinstance(name, str) and name else None
    return None
