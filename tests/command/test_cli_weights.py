# SPDX-License-Identifier: Apache-2.0
#
# test_cli_weights.py - weights out of a run and into another, read here by numpy alone;
# and a checkpoint, read here from docs/format.md alone. Skipped without numpy.
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    sys.exit(77)

GRADWIRE = os.path.abspath(os.environ["GRADWIRE"])
JOB = ["train", "--model", "fnn3", "--data", "synthetic:train=400,test=50,dim=20,classes=4",
       "--batch", "8", "--workers", "2", "--steps", "30", "--quiet", "--json"]
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def run(*args):
    return subprocess.run([GRADWIRE, *args], capture_output=True, timeout=120)


def summary_of(*args):
    r = run(*JOB, *args)
    check(r.returncode == 0, f"{args}: {r.stderr!r}")
    return json.loads(r.stdout)


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    check((8 + n) % 8 == 0, "values are not aligned")
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]],
                                   "<f4").reshape(t["shape"]) for name, t in header.items()}


def fnv(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return f"{h:016x}"


def check_of(data):
    mask, factor = 2**64 - 1, 0x243f6a8885a308d3

    def mix(h, w):
        h = (h ^ w) * factor & mask
        return h ^ h >> 32

    padded = data + bytes(32 - len(data) % 32)
    lane = [0x13198a2e03707345 * (i + 1) & mask for i in range(4)]
    for j, (word,) in enumerate(struct.iter_unpack("<Q", padded)):
        lane[j % 4] = mix(lane[j % 4], word)
    h = 0xa4093822299f31d1
    for value in [*lane, len(data)]:
        h = mix(h, value)
    return h


def read_checkpoint(path):
    """The sections by kind and worker; every check is checked."""
    with open(path, "rb") as f:
        data = f.read()
    check(data[:8] == b"GWCHECK1", "not a checkpoint")
    at, sections, checks = 8, {}, b""
    while True:
        kind, worker, n = struct.unpack_from("<4sIQ", data, at)
        stored = data[at + 16 + n:at + 24 + n]
        check(check_of(data[at:at + 16 + n]) == int.from_bytes(stored, "little"), f"{kind}: check")
        content = data[at + 16:at + 16 + n]
        at += 24 + n
        if kind == b"END ":
            check(at == len(data) and content == struct.pack("<QQ", len(sections), check_of(checks)),
                  "the end of a checkpoint")
            return sections
        checks += stored
        sections[kind.decode(), worker] = content


def there_and_back(tmp):
    first = summary_of("--out", f"{tmp}/a", "--export", f"{tmp}/a.safetensors",
                       "--checkpoint-every", "100")
    weights = read_safetensors(f"{tmp}/a.safetensors")
    check(weights["fc1.weight"].shape == (200, 20) and weights["fc1.bias"].shape == (200,),
          "shapes")
    flat = b"".join(w.tobytes() for w in weights.values())
    check(fnv(flat) == first["model_hash"], "the values are not the model's")
    # With a rate of 0 nothing changes.
    again = summary_of("--out", f"{tmp}/b", "--init", f"{tmp}/a.safetensors", "--lr", "0")
    check(again["model_hash"] == first["model_hash"], "--init does not give the same model")
    r = run("weights", "export", f"{tmp}/a", f"{tmp}/c.safetensors")
    check(r.returncode == 0, f"weights export: {r.stderr!r}")
    taken = read_safetensors(f"{tmp}/c.safetensors")
    check(all((taken[k] == weights[k]).all() for k in weights), "weights export differs")
    return flat


def average_of_workers(tmp):
    summary = summary_of("--out", f"{tmp}/d", "--sync", "local:4", "--checkpoint-every", "100",
                         "--export", f"{tmp}/d.safetensors")
    r = run("weights", "export", f"{tmp}/d/checkpoint-000001.gwc", f"{tmp}/e.safetensors")
    check(r.returncode == 0, f"weights export: {r.stderr!r}")
    a, b = read_safetensors(f"{tmp}/d.safetensors"), read_safetensors(f"{tmp}/e.safetensors")
    check(fnv(b"".join(w.tobytes() for w in a.values())) == summary["model_hash"], "local:4")
    check(all(numpy.allclose(a[k], b[k], atol=1e-6) for k in a), "the average differs")


def as_documented(tmp, flat):
    sections = read_checkpoint(f"{tmp}/a/checkpoint-000001.gwc")
    steps, epoch, workers, models, floats, slots, *_ = struct.unpack("<9Q", sections["JOB ", 0])
    check((steps, epoch, workers, models, floats) == (30, 25, 2, 1, len(flat) // 4), "JOB")
    check(sections["MODL", 0] == flat, "MODL is not the model")
    check(len(sections["SLOT", 0]) == slots * len(flat), "SLOT")
    check(struct.unpack_from("<Q", sections["WORK", 1])[0] == 30, "WORK: steps applied")
    check(sections["SYNC", 1][:8] == b"GWSTATE1", "SYNC")
    check(b"--model fnn3\n" in sections["SETS", 0], "SETS")
    check(sections["TENS", 0].startswith(b"fc1.weight 200 20\n"), "TENS")
    check(sections["WIND", 0] == b"0\n" * sections["TENS", 0].count(b"\n"), "WIND")


def write_safetensors(path, tensors, shape_of):
    """The same values with other shapes."""
    header, at = {}, 0
    for name, w in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape_of(w), "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(w.tobytes() for w in tensors.values()))


def convolutions_fit_pytorch(tmp):
    """Weights of convolutions have the shape of nn.Conv2d: outputs, inputs, height, width."""
    pictures = numpy.random.default_rng(1).integers(0, 256, (60, 3, 16, 16), dtype="u1")
    arrays = {f"{k}_{part}": v for part in ("train", "test")
              for k, v in (("x", pictures), ("y", numpy.arange(60) % 3))}
    numpy.savez(f"{tmp}/pictures.npz", **arrays)
    for model, name, shape in (("cnn", "conv2.weight", (64, 32, 3, 3)),
                               ("resnet20", "conv.weight", (16, 3, 3, 3)),
                               ("resnet20", "block2.1.conv1.weight", (32, 16, 3, 3)),
                               ("resnet20", "block2.1.conv2.weight", (32, 32, 3, 3))):
        job = ["--model", model, "--data", f"npz:{tmp}/pictures.npz", "--steps", "1", "--lr", "0", "--force"]
        first = summary_of(*job, "--out", f"{tmp}/p", "--checkpoint-every", "100",
                           "--export", f"{tmp}/p.safetensors")
        weights = read_safetensors(f"{tmp}/p.safetensors")
        check(weights.get(name, numpy.zeros(0)).shape == shape,
              f"{model}: {name}: {[(k, w.shape) for k, w in weights.items()]}")
        run("weights", "export", f"{tmp}/p", f"{tmp}/q.safetensors")
        with open(f"{tmp}/p.safetensors", "rb") as p, open(f"{tmp}/q.safetensors", "rb") as q:
            check(p.read() == q.read(), f"{model}: the checkpoint's weights have other shapes")
        # Files of before have matrices.
        write_safetensors(f"{tmp}/old.safetensors", weights,
                          lambda w: [w.shape[0], w.size // w.shape[0]] if w.ndim == 4 else w.shape)
        for file in ("p", "old"):
            again = summary_of(*job, "--out", f"{tmp}/r", "--seed", "9", "--init", f"{tmp}/{file}.safetensors")
            same = again["model_hash"] == first["model_hash"] or "gradwire.stats" in weights
            check(same, f"{model}: {file} is read as another model")


def errors(tmp):
    def expect(code, words, *args):
        r = run(*args)
        err = r.stderr.decode(errors="replace")
        check(r.returncode == code and err.startswith("gradwire: ") and err.count("\n") == 1 and
              all(w in err for w in words), f"{args}: exit {r.returncode}, {err!r}")

    weights = f"{tmp}/a.safetensors"
    expect(1, ["fc1.weight", "200 x 20", "200 x 21"], *JOB, "--data",
           "synthetic:train=400,test=50,dim=21,classes=4", "--init", weights, "--out", f"{tmp}/x1")
    expect(1, ["cannot read", "nothing"], *JOB, "--init", f"{tmp}/nothing", "--out", f"{tmp}/x2")
    expect(1, ["cannot write", "nowhere"], *JOB, "--export", f"{tmp}/nowhere/w", "--out",
           f"{tmp}/x3")
    expect(1, ["not a checkpoint"], "weights", "export", weights, f"{tmp}/y")
    expect(1, ["no good checkpoint"], "weights", "export", tmp, f"{tmp}/y")
    expect(1, ["cannot write"], "weights", "export", f"{tmp}/a", f"{tmp}/nowhere/y")
    expect(2, ["usage"], "weights")
    expect(2, ["usage"], "weights", "export", "one")
    check(run("weights", "--help").returncode == 0, "weights --help")


with tempfile.TemporaryDirectory() as folder:
    values = there_and_back(folder)
    average_of_workers(folder)
    convolutions_fit_pytorch(folder)
    as_documented(folder, values)
    errors(folder)
print(f"{len(failures)} failed")
sys.exit(1 if failures else 0)
