"""The limits for one untrusted file: bytes, pages, pixels, memory and time.

A file that needs more is rejected with a reason. Values only: `zygote` and the readers enforce them.
"""

from dataclasses import dataclass, replace
from typing import Final

# Applies to every file, whatever its source.
FILE_BYTES: Final = 25_000_000
# The largest page rendered for OCR. Images of up to 50 megapixels are opened and shrunk.
MAX_PAGE_PIXELS: Final = 25_000_000
MAX_IMAGE_PIXELS: Final = 50_000_000
# A page that is this many times longer than wide goes through OCR in parts.
STRIP_RATIO: Final = 2.5


@dataclass(frozen=True, slots=True)
class FileLimits:
    file_bytes: int = FILE_BYTES
    pages: int = 20
    words: int = 100_000
    embedded_files: int = 20
    embedded_bytes: int = 20_000_000
    memory_bytes: int = 1_500_000_000
    cpu_seconds: int = 10
    # A person waits for a message to be shown, and an honest one takes less than half a second.
    html_cpu_seconds: int = 2
    # From the request. Generous, because a busy machine or a starting zygote is not the file's fault.
    wall_seconds: float = 60.0

    def for_task(self, task: str) -> "FileLimits":
        return replace(self, cpu_seconds=self.html_cpu_seconds) if task == "sanitize_html" else self
