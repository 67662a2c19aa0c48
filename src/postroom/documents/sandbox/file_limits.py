"""How much one file may cost. Whatever needs more is refused with a reason."""

from dataclasses import dataclass, replace
from typing import Final

# What one file may have, wherever it comes from.
FILE_BYTES: Final = 25_000_000
# What a page is drawn with for recognition; 50 MP are opened at most, and shrunk.
MAX_PAGE_PIXELS: Final = 25_000_000
MAX_IMAGE_PIXELS: Final = 50_000_000
# A page that is so much longer than wide is looked at part by part.
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
    # A person waits for a letter, and an honest one takes less than half a second.
    letter_cpu_seconds: int = 2
    # Counted from the start of a child; generous, since a busy machine is not the file's fault.
    wall_seconds: float = 60.0

    def of(self, task: str) -> "FileLimits":
        return replace(self, cpu_seconds=self.letter_cpu_seconds) if task == "letter" else self
