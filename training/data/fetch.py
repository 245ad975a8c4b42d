"""Downloads the pinned packages of sources.json and unpacks them under .corpus/.

Debian packages come through `apt-get download`, npm packages through `npm pack`; nothing is
installed. Every archive is checked against the sha256 in sources.json (`--lock` records it).
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).with_name("sources.json")
CORPUS = Path(".corpus")


def archive_name(source: dict) -> str:
    """File name under which apt-get or npm stores the archive."""
    if source["kind"] == "npm":
        flat = source["name"].replace("@", "").replace("/", "-")
        return f"{flat}-{source['version']}.tgz"
    return f"{source['name']}_{source['version'].replace(':', '%3a')}_"


def find_archive(raw: Path, source: dict) -> Path | None:
    """The downloaded archive of a source, or None."""
    hits = sorted(raw.glob(archive_name(source).replace("[", "[[]") + "*"))
    return hits[0] if hits else None


def download(raw: Path, source: dict) -> Path:
    """Downloads one archive if it is not there yet."""
    found = find_archive(raw, source)
    if found is None:
        name, version = source["name"], source["version"]
        command = (
            ["npm", "pack", "--silent", f"{name}@{version}"]
            if source["kind"] == "npm"
            else ["apt-get", "download", f"{name}={version}"]
        )
        subprocess.run(command, cwd=raw, check=True, stdout=subprocess.DEVNULL)
        found = find_archive(raw, source)
    if found is None:
        sys.exit(f"Cannot find the archive of {source['name']} after its download")
    return found


def unpack(archive: Path, source: dict) -> None:
    """Unpacks an archive to .corpus/unpacked/<name>."""
    target = CORPUS / "unpacked" / source["name"]
    if target.exists():
        return
    target.mkdir(parents=True)
    if source["kind"] == "npm":
        subprocess.run(["tar", "xzf", str(archive), "-C", str(target)], check=True)
    else:
        subprocess.run(["dpkg-deb", "-x", str(archive), str(target)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", action="store_true", help="write sha256 into sources.json")
    lock = parser.parse_args().lock
    document = json.loads(SOURCES.read_text())
    raw = CORPUS / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for source in document["sources"]:
        archive = download(raw, source)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if lock:
            source["sha256"] = digest
        elif source.get("sha256") != digest:
            sys.exit(
                f"Cannot use {archive.name}: sha256 must be {source.get('sha256')}, is {digest}"
            )
        unpack(archive, source)
    if lock:
        SOURCES.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(document['sources'])} sources ready")


if __name__ == "__main__":
    main()
