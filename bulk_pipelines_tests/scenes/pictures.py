"""Pictures for the tests: good ones, strange ones, and hostile ones."""

import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageCms, PngImagePlugin

ORIENTATION, ARTIST, GPS = 0x0112, 0x013B, 0x8825


def drawn(width: int = 320, height: int = 240, seed: int = 1, mode: str = "RGB") -> Image.Image:
    """Draw a picture that a hash can tell from those of other seeds."""
    small = Image.new("RGB", (8, 6))
    number = seed * 2_654_435_761 + 12_345
    for x in range(8):
        for y in range(6):
            number = (number * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
            small.putpixel((x, y), (number >> 40 & 255, number >> 48 & 255, number >> 56 & 255))
    return small.resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def deep(seed: int = 1) -> Image.Image:
    """Draw in grey with 16 bits."""
    return drawn(seed=seed, mode="L").convert("I").point(lambda value: value * 257).convert("I;16")


def saved(image: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def telling() -> bytes:
    """A photo with all that betrays people: EXIF with a place and a name, XMP, a comment, a colour profile."""
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    exif[ARTIST] = "SECRET-ARTIST"
    exif.get_ifd(GPS)[1] = "N"
    exif.get_ifd(GPS)[2] = (52.0, 31.0, 12.0)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return saved(
        drawn(),
        exif=exif,
        comment=b"SECRET-COMMENT",
        xmp=b'<x:xmpmeta xmlns:x="adobe:ns:meta/">SECRET-XMP</x:xmpmeta>',
        icc_profile=profile,
    )


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(*chunks: bytes, width: int = 8, height: int = 8, pixels: bytes | None = None) -> bytes:
    """Write a PNG by hand, with what chunks there are."""
    rows = pixels if pixels is not None else (b"\0" + b"\x80" * width * 3) * height
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    image = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + image + chunk(b"IEND", b"")


def bomb(side: int = 30_000) -> bytes:
    """A PNG of a few kilobytes that would fill gigabytes."""
    packer = zlib.compressobj(9)
    row = b"\0" + b"\0" * side * 3
    pixels = b"".join(packer.compress(row) for _ in range(200)) + packer.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def inflated(name: bytes, size: int) -> bytes:
    """A chunk of text or of a colour profile that unpacks to so many bytes."""
    return chunk(name, b"key\0\0" + zlib.compress(b"A" * size, 9))


def text_png() -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("Author", "SECRET-PNG")
    return saved(drawn(), "PNG", pnginfo=info)


def animated(frames: int = 3) -> bytes:
    pictures = [drawn(seed=number) for number in range(1, frames + 1)]
    return saved(pictures[0], "GIF", save_all=True, append_images=pictures[1:])


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>'
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/etc/passwd) run\n"
