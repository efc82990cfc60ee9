"""A process that decodes pictures of strangers: it has limits of memory and time, no secrets, and may write no file.

It is run as a program of its own, and imports nothing but Pillow. It reads requests from its input and writes answers
to its output: four bytes with the length of a JSON text, the text, and then as many bytes as the text's `size` says.
"""

import hashlib
import json
import math
import resource
import signal
import struct
import sys
import warnings
from io import BytesIO
from operator import mul
from typing import IO, Any

from PIL import Image, ImageCms, PngImagePlugin, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF")
"""The formats that are decoded. Pillow knows some forty more, whose code is less tested against attacks."""
ORIENTATION, GPS = 0x0112, 0x8825
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
HASHED, KEPT = 32, 8
COSINES = [[math.cos(math.pi * (2 * x + 1) * u / (2 * HASHED)) for x in range(HASHED)] for u in range(KEPT)]
COLOURS, SHARE = 5, 0.02
WORK_SIZE = 256
LARGEST_PROFILE = 4 << 20
QUALITY = 82


def main() -> None:
    limits = json.loads(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limits["memory"], limits["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("error", Image.DecompressionBombWarning)
    Image.init()
    given, said = sys.stdin.buffer, sys.stdout.buffer
    while (header := given.read(4)) and len(header) == 4:
        request = json.loads(given.read(struct.unpack(">I", header)[0]))
        data = given.read(request["size"])
        # The parent, which would kill this process, may be dead. So the process also ends itself.
        signal.setitimer(signal.ITIMER_REAL, 2 * request["seconds"] + 5)
        answer, thumbnail = answered(data, request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        write(said, answer, thumbnail)
        if answer.get("spent"):
            return


def write(said: IO[bytes], answer: dict[str, Any], data: bytes) -> None:
    text = json.dumps(answer | {"size": len(data)}).encode()
    said.write(struct.pack(">I", len(text)) + text + data)
    said.flush()


def answered(data: bytes, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return what is seen of a picture, and its thumbnail; or why it cannot be read."""
    Image.MAX_IMAGE_PIXELS = request["pixels"]
    try:
        return seen(data, request)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        return {"error": f"the picture has more than {request['pixels']:,} pixels"}, b""
    except UnidentifiedImageError:
        return {"error": f"it is no picture of {', '.join(FORMATS)}", "unknown": True}, b""
    except MemoryError:
        return {"error": "the picture needs more memory than it may take", "spent": True}, b""
    except Exception as error:  # noqa: BLE001 - whatever Pillow raises of a broken file, the file is broken
        return {"error": f"the picture is broken: {type(error).__name__}: {str(error)[:300]}"}, b""


def seen(data: bytes, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    with Image.open(BytesIO(data), formats=FORMATS) as image:
        found: dict[str, Any] = {
            "format": "JPEG" if image.format == "MPO" else image.format,
            "mode": image.mode,
            "animated": bool(getattr(image, "is_animated", False)),
        }
        exif = image.getexif()
        turn = exif.get(ORIENTATION, 1)
        sizes = image.size[::-1] if turn in (5, 6, 7, 8) else image.size
        found |= {"width": sizes[0], "height": sizes[1], "orientation": turn if turn in TURNS else 1}
        side = request["thumbnail"] or WORK_SIZE
        image.draft(None, (side, side))
        image.load()
        found["betrays"] = betraying(image, exif)
        small = shrunk(image, side)
    small = turned(small, turn)
    flat = flattened(small)
    found |= {"phash": phash(flat), "colours": colours(flat), "sha256": hashlib.sha256(data).hexdigest()}
    if not request["thumbnail"]:
        return found, b""
    return found, encoded(flat if request["format"] == "JPEG" else small, request["format"])


def betraying(image: Image.Image, exif: Image.Exif) -> list[str]:
    """Return what the file tells besides the picture: names of metadata that may give somebody away."""
    held = {"exif": bool(exif), "gps": GPS in exif, "icc": bool(image.info.get("icc_profile"))}
    held["xmp"] = bool(image.info.get("xmp") or image.info.get("XML:com.adobe.xmp"))
    texts = image.text if isinstance(image, PngImagePlugin.PngImageFile) else {}
    held["comment"] = bool(image.info.get("comment") or set(texts) - {"XML:com.adobe.xmp"})
    return [name for name, there in held.items() if there]


def shrunk(image: Image.Image, side: int) -> Image.Image:
    """Return the picture so small that neither side is longer, in sRGB with eight bits, and with nothing of its
    metadata."""
    profile = image.info.get("icc_profile")
    transparent = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = eight_bits(image)
    elif image.mode in ("P", "PA", "1") or (transparent and image.mode in ("RGB", "L")):
        image = image.convert("RGBA" if transparent else "RGB")
    elif image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        image = image.convert("RGB")
    small = image.copy() if max(image.size) <= side else image
    small.thumbnail((side, side), reducing_gap=2.0)
    small = in_srgb(small, profile)
    clean = Image.new(small.mode, small.size)
    clean.paste(small)
    return clean


def eight_bits(image: Image.Image) -> Image.Image:
    """Return a picture of more than 256 greys with 256 of them: pixels of 16 bits lose the lower eight."""
    wide = image.convert("F")
    (low, high) = map(float, wide.getextrema())  # type: ignore[arg-type]
    if low >= 0 and high <= 65_535:
        scale, shift = (1.0 if high <= 255 else 1 / 256), 0.0
    else:
        scale = 255 / max(high - low, 1e-9)
        shift = -low * scale
    return wide.point(lambda value: value * scale + shift).convert("L")


def in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert colours by the file's profile, which is not kept. A profile that is wrong is no profile."""
    mode = "RGBA" if image.mode in ("RGBA", "LA") else "RGB"
    if profile and len(profile) <= LARGEST_PROFILE and image.mode in ("RGB", "CMYK"):
        try:
            source = ImageCms.ImageCmsProfile(BytesIO(profile))
            found = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
        except (ImageCms.PyCMSError, OSError, ValueError):
            found = None
        if found is not None:
            return found
    return image.convert(mode)


def turned(image: Image.Image, turn: int) -> Image.Image:
    return image.transpose(TURNS[turn]) if turn in TURNS else image


def flattened(image: Image.Image) -> Image.Image:
    """Return the picture on white."""
    if image.mode != "RGBA":
        return image
    ground = Image.new("RGB", image.size, "white")
    ground.paste(image, mask=image.getchannel("A"))
    return ground


def phash(image: Image.Image) -> str:
    """Return a hash of 64 bits, of which near-doubles share nearly all. Each bit says whether one of the lowest
    frequencies is above their median."""
    grey = list(image.convert("L").resize((HASHED, HASHED), Image.Resampling.BOX).tobytes())
    rows = [grey[start : start + HASHED] for start in range(0, HASHED * HASHED, HASHED)]
    across = [[sum(map(mul, row, wave)) for row in rows] for wave in COSINES]
    found = [sum(map(mul, column, wave)) for wave in COSINES for column in across]
    middle = sorted(found[1:])[len(found) // 2 - 1]
    # Rounding keeps the bits of a picture of one colour from being noise.
    bits = "".join("1" if round(each - middle, 3) > 0 else "0" for each in found)
    return f"{int(bits, 2):016x}"


def colours(image: Image.Image) -> list[str]:
    """Return the main colours of the picture, the most frequent one first."""
    little = image.resize((64, 64), Image.Resampling.BOX, reducing_gap=2.0)
    few = little.quantize(COLOURS, Image.Quantize.MEDIANCUT)
    palette = few.getpalette() or []
    counted = few.getcolors() or []
    most = [(count, index) for count, index in counted if isinstance(index, int) and count >= SHARE * 64 * 64]
    named = [palette[3 * index : 3 * index + 3] for _, index in sorted(most, reverse=True)]
    return list(dict.fromkeys("#{:02x}{:02x}{:02x}".format(*each) for each in named))


def encoded(image: Image.Image, kind: str) -> bytes:
    image.info = {}
    out = BytesIO()
    image.save(out, kind, **({"quality": QUALITY} if kind != "PNG" else {}))
    return out.getvalue()


if __name__ == "__main__":
    main()
