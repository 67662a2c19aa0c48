"""Screening: which messages and attachments a pipeline accepts, and why. Pure functions.

Also detects file types by their first bytes. When in doubt, it accepts: what is ignored here is never read.
docs/pipelines.md shows the rules as a table.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Final, Literal

from postroom.documents.files.file_type import E_INVOICE_ROOTS, TNEF_START
from postroom.documents.pipelines import Pipeline, Pipelines
from postroom.documents.sandbox.file_limits import FILE_BYTES
from postroom.model import FolderRole

HEAD_BYTES: Final = 1024  # of a file that show its type
READABLE: Final = frozenset({"pdf", "png", "jpeg", "tiff"})
CONTAINERS: Final = frozenset({"zip", "message", "tnef"})
_BLANKS: Final = re.compile(r"\s*")
_XML_DECLARATION: Final = re.compile(r"<\?xml\s")
_E_INVOICE_ROOT: Final = re.compile(
    rf"<(?:[\w.-]+:)?(?:{'|'.join(sorted(root for _, root in E_INVOICE_ROOTS))})[\s>]"
)
_BEFORE_ROOT: Final = {"<!--": "-->", "<?": "?>"}  # comments and processing instructions, with their ends
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
    """What happens to an attachment."""

    TAKE = "take"  # it becomes a document
    OPEN = "open"  # its files are screened in turn
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class ScreeningVerdict:
    action: ScreeningAction
    reason: str

    @property
    def accepted(self) -> bool:
        return self.action is not ScreeningAction.IGNORE


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """What screening knows about a message, without its body."""

    mailbox: str
    sender: str
    folder_names: tuple[str, ...]
    folder_roles: frozenset[FolderRole]
    is_draft: bool
    attachments: int


@dataclass(frozen=True, slots=True)
class AttachmentFacts:
    """What screening knows about an attachment. `detected` is the type that its first bytes show."""

    kind: Literal["file", "item", "reference"]
    name: str
    media_type: str
    size: int
    is_inline: bool
    content_id: str | None = None
    detected: str | None = None


def screen_message(pipeline: Pipeline, message: MessageFacts) -> ScreeningVerdict:
    """Decide, before anything is fetched or read, whether a message may hold a document."""
    if not pipeline.takes_mailbox(message.mailbox):
        return _ignore("the pipeline does not cover this mailbox")
    if not pipeline.takes_folder(message.folder_names, message.folder_roles):
        return _ignore(_explain_folder(pipeline, message.folder_roles))
    if message.is_draft and FolderRole.DRAFTS not in pipeline.folders:
        return _ignore("it is a draft")
    if not pipeline.takes_sender(message.sender):
        return _ignore("the pipeline does not accept this sender")
    if message.attachments == 0:
        return _ignore("it has no attachment")
    return ScreeningVerdict(ScreeningAction.TAKE, "it may contain a document")


def covers_sender(pipelines: Pipelines, mailbox: str, sender: str) -> bool:
    """Whether a pipeline accepts mail of this sender, in this mailbox, in some folder."""
    return any(
        pipeline.takes_mailbox(mailbox) and pipeline.takes_sender(sender) for pipeline in pipelines.values()
    )


def screen_attachment(file: AttachmentFacts) -> ScreeningVerdict:
    """Decide about one attachment by its name, its declared type and its first bytes."""
    suffix = PurePosixPath(file.name.lower().strip()).suffix
    if file.kind == "reference":
        return _ignore("it is a link to a file stored elsewhere")
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
            ScreeningAction.OPEN, "it is a forwarded message; its attachments are screened"
        )
    return _screen_by_content(file, suffix)


def _screen_by_content(file: AttachmentFacts, suffix: str) -> ScreeningVerdict:
    claimed = _BY_SUFFIX.get(suffix) or _BY_MEDIA_TYPE.get(file.media_type)
    found = file.detected or claimed
    if found in READABLE and _is_decoration(file, found):
        return _ignore("it is an inline image")
    if found in READABLE:
        return ScreeningVerdict(ScreeningAction.TAKE, f"it is a {found.upper()} file")
    if found in CONTAINERS or (found == "other" and claimed == "message"):
        return ScreeningVerdict(ScreeningAction.OPEN, "it contains other files, which are screened")
    if found == "xml":
        return ScreeningVerdict(ScreeningAction.TAKE, "it may be an electronic invoice")
    if claimed in READABLE:
        return _ignore(f"it is named as {claimed.upper()}, but its content is not")
    return _ignore("it is not a PDF, PNG, JPEG, TIFF, XML, zip or message file")


def _is_decoration(file: AttachmentFacts, found: str) -> bool:
    """Whether it is an inline image. Some mail clients mark a PDF as inline because they can preview it."""
    return file.is_inline and (found != "pdf" or file.content_id is not None)


def detect_type(head: bytes) -> str:
    """Detect the type of a file by its first bytes. A PDF may start with other bytes."""
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"  # even if it starts with an uncompressed PDF
    if head.startswith(TNEF_START):
        return "tnef"  # Outlook's winmail.dat; a PDF inside it may begin in the first bytes as well
    if b"%PDF-" in head[:HEAD_BYTES]:
        return "pdf"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "tiff"
    return "xml" if _starts_like_xml(_decode_head(head)) else "other"


def _starts_like_xml(text: str) -> bool:
    """Whether it begins with an XML declaration or, without one, with the root element of an e-invoice.

    Reads each character once: a sender chooses this text, and a regular expression would backtrack in it.
    """
    at = _skip_blanks(text, 0)
    if _XML_DECLARATION.match(text, at):
        return True
    while opening := next((each for each in _BEFORE_ROOT if text.startswith(each, at)), None):
        closing = _BEFORE_ROOT[opening]
        end = text.find(closing, at + len(opening))
        if end == -1:
            return False
        at = _skip_blanks(text, end + len(closing))
    return _E_INVOICE_ROOT.match(text, at) is not None


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _decode_head(head: bytes) -> str:
    """Decode the first characters, by the byte order mark or by how `<` is encoded."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", errors="ignore")
    if head.startswith((b"<\0", b"\0<")):
        return head.decode("utf-16-le" if head.startswith(b"<") else "utf-16-be", errors="ignore")
    return head.removeprefix(b"\xef\xbb\xbf").decode(errors="ignore")


def _explain_folder(pipeline: Pipeline, roles: Collection[FolderRole]) -> str:
    if pipeline.folders:
        return "it is not in a folder of the pipeline"
    return f"it is in the folder {', '.join(sorted(roles))}"


def _ignore(reason: str) -> ScreeningVerdict:
    return ScreeningVerdict(ScreeningAction.IGNORE, reason)
