"""Which mail and which attachments a pipeline takes (D1, D2): pure functions, each verdict with its reason.

Errs towards taking: what is refused here is never read. docs/pipelines.md shows the rules as a table.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Final, Literal

from postroom.documents.files.file_type import E_INVOICE_ROOTS, TNEF_START
from postroom.documents.pipelines import Pipeline
from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.model import FolderRole

READABLE: Final = frozenset({"pdf", "png", "jpeg", "tiff"})
CONTAINERS: Final = frozenset({"zip", "message", "tnef"})
# What says that it is XML; or, where nothing does, the first element of an e-invoice.
_ROOTS: Final = "|".join(sorted(root for _, root in E_INVOICE_ROOTS))
_XML: Final = re.compile(rf"\s*(?:<\?xml\s|(?:<!--.*?-->\s*)*<(?:[\w.-]+:)?(?:{_ROOTS})[\s>])", re.DOTALL)
_SIGNATURES: Final = frozenset({".sig", ".p7s", ".p7m", ".smime", ".asc"})
_CALENDAR_AND_CONTACT_FILES: Final = frozenset({".ics", ".vcf"})
_BY_SUFFIX: Final = {
    ".pdf": "pdf",
    ".png": "png",
    ".jpg": "jpeg",
    ".jpeg": "jpeg",
    ".jpe": "jpeg",
    ".tif": "tiff",
    ".tiff": "tiff",
    ".zip": "zip",
    ".eml": "message",
    ".xml": "xml",
}
_BY_MEDIA_TYPE: Final = {
    "application/pdf": "pdf",
    "application/x-pdf": "pdf",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/tiff": "tiff",
    "application/zip": "zip",
    "application/x-zip-compressed": "zip",
    "message/rfc822": "message",
    "application/ms-tnef": "tnef",
    "application/vnd.ms-tnef": "tnef",
    "application/xml": "xml",
    "text/xml": "xml",
}


class ScreeningAction(Enum):
    """What becomes of an attachment."""

    TAKE = "take"  # it becomes a document
    OPEN = "open"  # what is inside is screened in its turn
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class ScreeningVerdict:
    action: ScreeningAction
    reason: str

    @property
    def accepted(self) -> bool:
        return self.action is not ScreeningAction.LEAVE


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """What is known of a message without its body."""

    mailbox: str
    sender: str
    folder_names: tuple[str, ...]
    folder_roles: frozenset[FolderRole]
    is_draft: bool
    attachments: int


@dataclass(frozen=True, slots=True)
class AttachmentFacts:
    """What is known of an attachment before it is read; `detected`: what its first bytes say it is."""

    kind: Literal["file", "item", "reference"]
    name: str
    media_type: str
    size: int
    is_inline: bool
    content_id: str | None = None
    detected: str | None = None


def screen_message(pipeline: Pipeline, message: MessageFacts) -> ScreeningVerdict:
    """Stage 1, before anything is fetched or read: whether a message may hold what the pipeline wants."""
    if not pipeline.takes_mailbox(message.mailbox):
        return _ignore("the pipeline does not take from this mailbox")
    if not pipeline.takes_folder(message.folder_names, message.folder_roles):
        return _ignore(_explain_folder(pipeline, message.folder_roles))
    if message.is_draft and FolderRole.DRAFTS not in pipeline.folders:
        return _ignore("it is a draft")
    if not pipeline.takes_sender(message.sender):
        return _ignore("the pipeline does not take from this sender")
    if message.attachments == 0:
        return _ignore("it has no attachment")
    return ScreeningVerdict(ScreeningAction.TAKE, "it may hold a document")


def screen_attachment(file: AttachmentFacts) -> ScreeningVerdict:
    """Stage 1 for one attachment: by what it is called, what it is declared as, and what its bytes say."""
    suffix = PurePosixPath(file.name.lower().strip()).suffix
    if file.kind == "reference":
        return _ignore("it is a link to a file elsewhere; the mail does not hold its bytes")
    if suffix in _SIGNATURES or "signature" in file.media_type:
        return _ignore("it is a signature")
    if suffix in _CALENDAR_AND_CONTACT_FILES or file.media_type in {"text/calendar", "text/vcard"}:
        return _ignore("it is a calendar entry or a contact card")
    if file.size > FILE_BYTES:
        return _ignore(f"it is larger than {FILE_BYTES:,} bytes")
    if file.size == 0:
        return _ignore("it is empty")
    if file.kind == "item":
        return ScreeningVerdict(
            ScreeningAction.OPEN, "it is a forwarded message; what is attached there is screened"
        )
    return _screen_by_content(file, suffix)


def _screen_by_content(file: AttachmentFacts, suffix: str) -> ScreeningVerdict:
    claimed = _BY_SUFFIX.get(suffix) or _BY_MEDIA_TYPE.get(file.media_type)
    found = file.detected or claimed
    if found in READABLE and _is_decoration(file, found):
        return _ignore("it is a picture inside the text")
    if found in READABLE:
        return ScreeningVerdict(ScreeningAction.TAKE, f"it is a {found.upper()} file")
    if found in CONTAINERS or (found == "other" and claimed == "message"):
        return ScreeningVerdict(ScreeningAction.OPEN, "it holds other files; they are screened")
    if found == "xml":
        return ScreeningVerdict(ScreeningAction.TAKE, "it may be an electronic invoice")
    if claimed in READABLE:
        return _ignore(f"it is called {claimed.upper()}, but its bytes are not")
    return _ignore("it is no PDF, PNG, JPEG or TIFF")


def _is_decoration(file: AttachmentFacts, found: str) -> bool:
    """Pictures shown in the text. Some mail programs mark a PDF so, too, only because they can preview it."""
    return file.is_inline and (found != "pdf" or file.content_id is not None)


def detect_type(head: bytes) -> str:
    """What the first bytes say a file is. A PDF may begin with some other bytes."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"  # even where a PDF stands at its beginning, packed as it is
    if head.startswith(TNEF_START):
        return "tnef"  # Outlook's winmail.dat; a PDF inside it may begin in the first bytes as well
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "tiff"
    return "xml" if _XML.match(_decode_head(head)) else "other"


def _decode_head(head: bytes) -> str:
    """The first characters, in the encoding that the mark before them tells, or that `<` shows."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", errors="ignore")
    if head.startswith((b"<\0", b"\0<")):
        return head.decode("utf-16-le" if head.startswith(b"<") else "utf-16-be", errors="ignore")
    return head.removeprefix(b"\xef\xbb\xbf").decode(errors="ignore")


def _explain_folder(pipeline: Pipeline, roles: Collection[FolderRole]) -> str:
    if pipeline.folders:
        return "it does not stand in a folder that the pipeline takes from"
    return f"it stands in {', '.join(sorted(roles))}"


def _ignore(reason: str) -> ScreeningVerdict:
    return ScreeningVerdict(ScreeningAction.LEAVE, reason)
