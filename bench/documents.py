"""Documents per CPU second, isolation included, beside the bare libraries in one process on the same files.

Text layer: pypdfium2 and the shortest code that makes words with places in lines of its characters.
Recognition: the engine itself with our settings on the same pictures. Analysis: the same code in this
process. Time of children is counted; starting up is not.
"""

import asyncio
import io
import random
import resource
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pypdfium2
import reportlab
from PIL import Image
from pypdf import PdfWriter
from rapidocr import RapidOCR
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from postroom.documents.analysis import analyze
from postroom.documents.files import ocr
from postroom.documents.files.file_reading import FileReading
from postroom.documents.kinds.invoice import INVOICE
from postroom.documents.sandbox.file_sandbox import FileSandbox

DOCUMENTS, SCANS, ROUNDS = 40, 3, 3
WANTED_TEXT, WANTED_RECOGNITION, WANTED_ANALYSIS = 0.4, 0.9, 0.7
IsolatedTask = Callable[[FileSandbox, Any], Awaitable[None]]
FONTS = Path(reportlab.__file__).parent / "fonts"
WORDS = ("Lieferung", "Wartung", "Beratung", "Stück", "Größe", "Montage", "Schrauben", "à", "unité", "reçu")


def invoice(number: int, chance: random.Random) -> bytes:
    """One to three pages with embedded fonts, a picture and an XML file, as business sends them."""
    written = io.BytesIO()
    canvas = Canvas(written, pagesize=(595, 842))
    logo = Image.effect_noise((300, 80), 60)
    for page in range(chance.choice((1, 2, 2, 3))):
        canvas.drawInlineImage(logo, 400, 770, 150, 40)
        canvas.setFont("VeraBd", 14)
        canvas.drawString(60, 760, f"Rechnung RE-2026-{number:05} Seite {page + 1}")
        canvas.setFont("Vera", 9)
        for line in range(38):
            y = 730 - 17 * line
            canvas.drawString(60, y, f"{line + 1}")
            canvas.drawString(90, y, " ".join(chance.choices(WORDS, k=4)))
            canvas.drawRightString(420, y, f"{chance.randint(1, 99)}")
            canvas.drawRightString(530, y, f"{chance.randint(1, 99_999) / 100:.2f} €".replace(".", ","))
        canvas.showPage()
    canvas.save()
    writer = PdfWriter(clone_from=io.BytesIO(written.getvalue()))
    writer.add_attachment("factur-x.xml", b"<a>" + chance.randbytes(4000).hex().encode() + b"</a>")
    finished = io.BytesIO()
    writer.write(finished)
    return finished.getvalue()


def scan(content: bytes) -> bytes:
    """The first page as a scanner would send it."""
    picture = pypdfium2.PdfDocument(content)[0].render(scale=200 / 72).to_pil().convert("L")
    encoded = io.BytesIO()
    picture.save(encoded, "JPEG", quality=85, dpi=(200, 200))
    return encoded.getvalue()


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def read(sandbox: FileSandbox, content: bytes) -> None:
    assert len((await sandbox.read(content)).transcript.words) > 100


async def analyze_isolated(sandbox: FileSandbox, reading: FileReading) -> None:
    assert (await sandbox.analyze(reading, INVOICE)).kind is INVOICE


async def session(run: IsolatedTask, items: Sequence[Any]) -> float:
    """What this costs for these items from the first process to the last."""
    begin = cpu_seconds()
    async with FileSandbox(ocr_processes=1) as sandbox:
        await asyncio.gather(*(run(sandbox, item) for item in items))
    return cpu_seconds() - begin


async def ours(run: IsolatedTask, items: Sequence[Any], *, again: int = 1) -> float:
    """Seconds an item, without what the first of a session costs."""
    start = await session(run, items[:1])
    whole = await session(run, [*items[:1], *(list(items) * again)])
    return (whole - start) / (len(items) * again)


def bare_text(files: Sequence[bytes], *, again: int, places: bool = True) -> float:
    begin = cpu_seconds()
    for content in list(files) * again:
        with pypdfium2.PdfDocument(content) as document:
            for page in document:
                text = page.get_textpage()
                characters = text.get_text_range()
                if places:
                    words_in_lines(characters, text)
            for index in range(document.count_attachments()):
                document.get_attachment(index).get_data()
    return (cpu_seconds() - begin) / (len(files) * again)


def words_in_lines(characters: str, text: pypdfium2.PdfTextPage) -> list[tuple[int, float, str]]:
    words: list[list] = []
    is_new = True
    for index, character in enumerate(characters):
        if character.isspace():
            is_new = True
            continue
        left, bottom, right, top = text.get_charbox(index, loose=True)
        if is_new:
            words.append([character, left, bottom, right, top])
            is_new = False
        else:
            word = words[-1]
            word[0] += character
            word[1:] = min(word[1], left), min(word[2], bottom), max(word[3], right), max(word[4], top)
    return sorted((-round(word[2]), word[1], word[0]) for word in words)


def bare_recognition(files: Sequence[bytes]) -> float:
    engine = RapidOCR(params=dict(ocr.ENGINE_OPTIONS))
    seconds: list[float] = []
    for content in (files[0], *files):
        begin = cpu_seconds()
        pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))[:, :, ::-1]
        assert len(engine(np.ascontiguousarray(pixels)).txts) > 20
        seconds.append(cpu_seconds() - begin)
    return statistics.mean(seconds[1:])


def bare_analysis(readings: Sequence[FileReading], *, again: int) -> float:
    begin = cpu_seconds()
    for reading in list(readings) * again:
        assert analyze(reading, [INVOICE]).kind is INVOICE
    return (cpu_seconds() - begin) / (len(readings) * again)


async def compare_analysis(files: Sequence[bytes]) -> float:
    async with FileSandbox() as sandbox:
        readings = [await sandbox.read(content) for content in files]
    bare_analysis(readings, again=1)  # the first loads tables and models
    bare, isolated = [], []
    for _ in range(ROUNDS):
        bare.append(bare_analysis(readings, again=2))
        isolated.append(await ours(analyze_isolated, readings, again=2))
    here, child = statistics.median(bare), statistics.median(isolated)
    print(f"analysis in this process  {1 / here:>8.1f} documents per CPU second")
    print(f"analysis in children      {1 / child:>8.1f} documents per CPU second")
    print(f"ratio, analysis           {here / child:>8.2f} (wanted: {WANTED_ANALYSIS} or better)")
    return here / child


async def main() -> int:
    for name in ("Vera", "VeraBd"):
        pdfmetrics.registerFont(TTFont(name, FONTS / f"{name}.ttf"))
    chance = random.Random(2026)
    files = [invoice(number, chance) for number in range(DOCUMENTS)]
    bare, isolated = [], []
    for _ in range(ROUNDS):
        bare.append(bare_text(files, again=4))
        isolated.append(await ours(read, files, again=4))
    text = statistics.median(bare) / statistics.median(isolated)
    plain = bare_text(files, again=4, places=False)
    print(f"bare pypdfium2            {1 / statistics.median(bare):>8.1f} documents per CPU second")
    print(f"  its text without places {1 / plain:>8.1f}")
    print(f"postroom.documents        {1 / statistics.median(isolated):>8.1f} documents per CPU second")
    print(f"ratio, text layer         {text:>8.2f} (wanted: {WANTED_TEXT} or better)")
    scans = [scan(content) for content in files[:SCANS]]
    engine, whole = bare_recognition(scans), await ours(read, scans)
    print(f"bare engine               {1 / engine:>8.2f} pages per CPU second")
    print(f"postroom.documents        {1 / whole:>8.2f} pages per CPU second")
    print(f"ratio, recognition        {engine / whole:>8.2f} (wanted: {WANTED_RECOGNITION} or better)")
    analysis = await compare_analysis(files[:10])
    wanted = (text >= WANTED_TEXT, engine / whole >= WANTED_RECOGNITION, analysis >= WANTED_ANALYSIS)
    return 0 if all(wanted) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
