"""Images become RGB pages, upright by EXIF, with square pixels."""

import io

import pytest
from PIL import Image

from documents.files import sample_files
from postroom.documents.files import images
from postroom.documents.files.file_type import FileType
from postroom.documents.sandbox.file_limits import FileLimits
from postroom.errors import UnreadableFile

LARGE = (4000, 4000)


def render(content, kind, **options):
    chosen = {"page": 0, "fit_within": LARGE, "rotation": 0} | options
    return images.render(content, kind, **chosen)


def halves(mode, dark, light, size=(20, 40)):
    """The upper half dark, the lower light."""
    sheet = Image.new(mode, size, light)
    sheet.paste(dark, (0, 0, size[0], size[1] // 2))
    return sheet


@pytest.mark.parametrize(
    "mode, dark, light, kind",
    [
        ("1", 0, 1, FileType.TIFF),
        ("L", 0, 255, FileType.PNG),
        ("I;16", 0, 65535, FileType.PNG),
        ("I;16", 0, 4000, FileType.TIFF),
        ("P", 0, 255, FileType.PNG),
        ("LA", (0, 255), (0, 0), FileType.PNG),
        ("RGBA", (0, 0, 0, 255), (0, 0, 0, 0), FileType.PNG),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), FileType.JPEG),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), FileType.TIFF),
        ("F", 0.0, 1.0, FileType.TIFF),
    ],
)
def test_every_color_mode_becomes_black_on_white(mode, dark, light, kind):
    sheet = halves("L", 0, 255).convert("P") if mode == "P" else halves(mode, dark, light)
    page = render(sample_files.encoded(sheet, images.PILLOW_FORMATS[kind]), kind)
    assert page.mode == "RGB"
    assert max(page.getpixel((10, 5))) < 40
    assert min(page.getpixel((10, 35))) > 215


def test_tiff_pages_have_their_sizes():
    first, second = halves("L", 0, 255, (100, 200)), halves("L", 255, 0, (300, 100))
    content = sample_files.encoded(first, "TIFF", second, dpi=(100, 100))
    draft = images.read(content, FileType.TIFF, FileLimits())
    assert [(page.width, page.height) for page in draft.reading.transcript.pages] == [(72, 144), (216, 72)]
    assert draft.pages_without_text == (0, 1)
    assert render(content, FileType.TIFF, page=1).size == (300, 100)
    with pytest.raises(UnreadableFile):
        render(content, FileType.TIFF, page=2)


def test_a_photo_is_rotated_by_its_exif_orientation():
    exif = Image.Exif()
    exif[0x0112] = 6  # turn it to the right
    content = sample_files.encoded(halves("L", 0, 255, (40, 20)), "JPEG", exif=exif)
    [page] = images.read(content, FileType.JPEG, FileLimits()).reading.transcript.pages
    assert page.width < page.height
    sheet = render(content, FileType.JPEG)
    assert sheet.size == (20, 40)
    assert max(sheet.getpixel((15, 20))) < 40
    assert min(sheet.getpixel((4, 20))) > 215


def test_a_fax_gets_square_pixels():
    content = sample_files.encoded(Image.new("1", (204, 98)), "TIFF", dpi=(204, 98))
    [page] = images.read(content, FileType.TIFF, FileLimits()).reading.transcript.pages
    assert page.width == pytest.approx(page.height)
    sheet = render(content, FileType.TIFF)
    assert sheet.width == pytest.approx(sheet.height, abs=1)


def test_an_implausible_resolution_is_ignored():
    content = sample_files.encoded(Image.new("1", (200, 200)), "TIFF", dpi=(1, 30_000))
    [page] = images.read(content, FileType.TIFF, FileLimits()).reading.transcript.pages
    assert (page.width, page.height) == (72, 72)


def test_images_are_shrunk_and_rotated_but_never_enlarged():
    content = sample_files.encoded(Image.new("L", (400, 200)), "PNG")
    assert render(content, FileType.PNG, fit_within=(100, 100)).size == (100, 50)
    assert render(content, FileType.PNG, fit_within=(100, 100), rotation=90).size == (50, 100)
    assert render(content, FileType.PNG).size == (400, 200)


@pytest.mark.parametrize("turned, corner", [(0, (1, 1)), (90, (38, 1)), (180, (18, 38)), (270, (1, 18))])
def test_rotation_is_clockwise(turned, corner):
    sheet = Image.new("L", (20, 40), 255)
    sheet.paste(0, (0, 0, 5, 5))
    assert render(sample_files.encoded(sheet, "PNG"), FileType.PNG, rotation=turned).getpixel(corner) == (
        0,
        0,
        0,
    )


def test_a_transparent_palette_image_gets_a_white_background():
    sheet = Image.new("P", (4, 4), 1)
    sheet.putpalette([0, 0, 0] * 256)
    written = io.BytesIO()
    sheet.save(written, "PNG", transparency=1)
    assert render(written.getvalue(), FileType.PNG).getpixel((1, 1)) == (255, 255, 255)
