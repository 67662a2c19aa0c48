"""Decodes the containers that mail programs write: forwarded messages and winmail.dat files.

`unpack` decodes ZIP files itself. Everything here runs in a sandboxed child.
"""

from collections.abc import Iterator
from typing import Final

from postroom import mime
from postroom.documents.files.file_type import FileType
from postroom.documents.files.unpack import AttachedFile, ContainerDecoders
from postroom.mime import tnef


def iterate_files(message: bytes) -> Iterator[AttachedFile]:
    """Iterate over the attached files of a message; an attached message is yielded as bytes."""
    for attachment in mime.parse(message).attachments:
        if attachment.kind != "reference":
            name = attachment.file_name or ("message.eml" if attachment.kind == "item" else "")
            yield AttachedFile(
                name, attachment.media_type, attachment.content, attachment.is_inline, attachment.content_id
            )


def iterate_tnef_files(stream: bytes) -> Iterator[AttachedFile]:
    """Yield the files inside a winmail.dat attachment."""
    for file in tnef.extract_files(stream):
        yield AttachedFile(file.name or "", file.media_type or "", file.content)


CONTAINER_DECODERS: Final[ContainerDecoders] = {
    FileType.MESSAGE: iterate_files,
    FileType.TNEF: iterate_tnef_files,
}
