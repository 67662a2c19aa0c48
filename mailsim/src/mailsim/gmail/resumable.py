"""ResumableUpload: a message that a client uploads in pieces, with 308 until the last one.

It checks ranges and collects the content; `api` runs the method once the upload is complete. See Google's
guide "Upload attachments", section "Resumable upload".
"""

import re
from dataclasses import dataclass, field

from mailsim.gmail.errors import GmailError, GmailErrorBody, bad_request
from mailsim.simulator import RawResponse

MAX_SIZE = 64 << 20
CHUNK = 256 * 1024  # every piece but the last has a multiple of this size
_RANGE = re.compile(r"bytes (?:(\d{1,12})-(\d{1,12})|\*)/(\d{1,12}|\*)")
_TEXT = ("content-type", "text/plain; charset=utf-8")


@dataclass(slots=True)
class ResumableUpload:
    """An upload in progress or, with a `response`, a finished one."""

    http: str
    path: str
    query: str
    authorization: str
    media_type: str
    metadata: bytes
    size: int | None = None  # None: not known yet
    content: bytearray = field(default_factory=bytearray)
    response: RawResponse | None = None

    def add_piece(self, content_range: str, piece: bytes) -> bool:
        """Append a piece, or nothing if the range only asks for the state; return whether all has arrived."""
        if not content_range:
            content_range = f"bytes 0-{len(piece) - 1}/{len(piece)}" if piece else "bytes */0"
        named = _RANGE.fullmatch(content_range)
        if named is None:
            raise bad_request("Failed to parse Content-Range header.", "badRequest")
        first, last, total = named.groups()
        if total != "*":
            self._set_size(int(total))
        if first is not None:
            self._append(int(first), int(last), piece)
        return self.size is not None and len(self.content) == self.size

    def _set_size(self, size: int) -> None:
        if self.size not in {None, size}:
            raise bad_request("Invalid upload size in Content-Range header.", "badRequest")
        if size > MAX_SIZE:
            raise GmailError(GmailErrorBody(413, "uploadTooLarge", "Upload is too large."))
        self.size = size

    def _append(self, first: int, last: int, piece: bytes) -> None:
        end = first + len(piece)
        if last + 1 != end or first > len(self.content) or end > (self.size or MAX_SIZE):
            raise bad_request("Content-Range does not match the content or the bytes received.", "badRequest")
        if len(piece) % CHUNK and end != self.size:
            raise bad_request(
                "Invalid request.  The number of bytes uploaded is required to be equal or greater than "
                f"{CHUNK}, except for the final request (it's recommended to be the exact multiple of "
                f"{CHUNK}). The received request contained {len(piece)} bytes.",
                "badRequest",
            )
        self.content[first:] = piece

    def make_incomplete_response(self) -> RawResponse:
        """Make the 308 with the range received so far; without bytes there is no range."""
        received = (("range", f"bytes=0-{len(self.content) - 1}"),) if self.content else ()
        return RawResponse(308, b"", (_TEXT, *received))


def make_started_response(location: str, upload_id: str) -> RawResponse:
    return RawResponse(200, b"", (_TEXT, ("location", location), ("x-guploader-uploadid", upload_id)))
