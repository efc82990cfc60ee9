"""Pictures that were made to harm, or that are odd: each is seen or refused within its limits, and no child is lost."""

import io
import struct
import time
import zlib
from collections.abc import Callable, Iterator

import pytest
from PIL import Image, ImageCms

from bulk_pipelines.errors import Permanent
from bulk_pipelines.processing.image.children import Children, Spec

SPEC = Spec(64, "JPEG", 50_000_000, 20.0)


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children(1, 1 << 30)
    yield made
    made.close()


def photo(kind: str, mode: str = "RGB", **options: object) -> bytes:
    out = io.BytesIO()
    picture = Image.linear_gradient("L").resize((200, 120)).convert("RGB" if mode == "CMYK" else mode)
    picture.convert(mode).save(out, kind, **options)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunk(kind: bytes, data: bytes) -> bytes:
    """Return a PNG with a chunk behind its header."""
    png = photo("PNG")
    return png[:33] + chunk(kind, data) + png[33:]


def app1(data: bytes) -> bytes:
    """Return a JPEG with this EXIF."""
    jpeg = photo("JPEG")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(data) + 2) + data + jpeg[2:]


def frames(kind: str, count: int) -> bytes:
    out = io.BytesIO()
    made = [Image.new("RGB", (16, 16), (n % 256, n // 256, 9)) for n in range(count)]
    made[0].save(out, kind, save_all=True, append_images=made[1:])
    return out.getvalue()


def tiff_that_loops() -> bytes:
    data = bytearray(photo("TIFF"))
    first = struct.unpack("<I", data[4:8])[0]
    count = struct.unpack("<H", data[first : first + 2])[0]
    data[first + 2 + 12 * count : first + 6 + 12 * count] = struct.pack("<I", first)
    return bytes(data)


SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def zeros() -> bytes:
    return zlib.compress(bytes(200_000_000), 9)


SEEN: dict[str, Callable[[], bytes]] = {
    "EXIF that is none": lambda: app1(b"Exif\0\0" + b"garbage" * 100),
    "EXIF that leads beyond its end": lambda: app1(b"Exif\0\0II*\0\xff\xff\xff\x7f"),
    "EXIF that leads to itself": lambda: app1(b"Exif\0\0II*\0\x08\0\0\0\1\0\x69\x87\4\0\1\0\0\0\x08\0\0\0\x08\0\0\0"),
    "EXIF cut short": lambda: app1(b"Exif\0\0II*\0\x08\0\0\0\xff\xff\x12\x01"),
    "EXIF with an orientation of text": lambda: app1(b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\x01\2\0\4\0\0\0abc\0\0\0\0\0"),
    "an animation of 10,000 frames": lambda: frames("GIF", 10_000),
    "a WebP of 200 frames": lambda: frames("WEBP", 200),
    "an APNG of 500 frames": lambda: frames("PNG", 500),
    "a TIFF of 1,000 pages": lambda: frames("TIFF", 1_000),
    "a TIFF that leads to itself": tiff_that_loops,
    "CMYK with a profile of RGB": lambda: photo("JPEG", "CMYK", icc_profile=SRGB),
    "CMYK with a profile of garbage": lambda: photo("JPEG", "CMYK", icc_profile=b"acsp" * 5_000),
    "a JPEG that is an archive": lambda: photo("JPEG") + b"PK\x03\x04" + b"x" * 1_000 + b"PK\x05\x06" + bytes(18),
    "a GIF that is a script": lambda: photo("GIF") + b"/*<script>alert(1)</script>*/",
}
REFUSED: dict[str, Callable[[], bytes]] = {
    "SVG": lambda: b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "PostScript": lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
    "a profile that unpacks to 200 MB": lambda: with_chunk(b"iCCP", b"x\0\0" + zeros()),
    "a text that unpacks to 200 MB": lambda: with_chunk(b"zTXt", b"x\0\0" + zeros()),
    "a size that no picture has": lambda: photo("BMP")[:18] + struct.pack("<ii", 1 << 30, 1 << 30) + photo("BMP")[26:],
}


@pytest.mark.parametrize("name", SEEN)
def test_odd_pictures_are_seen(children: Children, name: str) -> None:
    begun = time.monotonic()
    found = children.see(SEEN[name](), SPEC)
    assert found.found["width"] in {200, 16}
    Image.open(io.BytesIO(found.thumbnail)).load()
    assert b"script" not in found.thumbnail
    assert time.monotonic() - begun < SPEC.seconds


@pytest.mark.parametrize("name", REFUSED)
def test_hostile_pictures_are_refused(children: Children, name: str) -> None:
    with pytest.raises(Permanent):
        children.see(REFUSED[name](), SPEC)
    assert children.see(photo("PNG"), SPEC).found["format"] == "PNG", "the next picture is seen"


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF"])
def test_a_picture_cut_short_anywhere_is_seen_or_refused(children: Children, kind: str) -> None:
    data = photo(kind)
    for stop in range(1, len(data), max(1, len(data) // 60)):
        try:
            children.see(data[:stop], SPEC)
        except Permanent as error:
            assert str(error).isprintable()  # noqa: PT017 - some of them are seen
    assert len(children.idle) == 1, "no child was lost"
