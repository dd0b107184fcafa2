"""Makes grey2bit.png, a grey PNG with two bits a pixel, and bzip2.zip, an archive that is compressed as few are.

Run in this folder: python oddfiles.py (nothing but Python).
"""

import struct
import zipfile
import zlib


def png(width, height, bits, colour, row):
    """A PNG of equal rows: colour is 0 for grey and 2 for RGB."""

    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress((b"\0" + row) * height)) + chunk(b"IEND", b"")


open("grey2bit.png", "wb").write(png(4, 1, 2, 0, bytes([0b00011011])))
with zipfile.ZipFile("bzip2.zip", "w", zipfile.ZIP_BZIP2) as archive:
    for name, colour in [("cat/1.png", (50, 60, 70)), ("dog/2.png", (80, 90, 100))]:
        archive.writestr(zipfile.ZipInfo(name), png(4, 4, 8, 2, bytes(colour) * 4), zipfile.ZIP_BZIP2)
