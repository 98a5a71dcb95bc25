#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package without torch: what it believes of gradwire.h, Sync on numpy
arrays over threads, states, errors."""
import os
import re
import subprocess
import sys
import tempfile

from torch_crew import raises, skip_without

skip_without("numpy")
import numpy as np

import gradwire
from gradwire import _api, spec
from support_threads import averages, on_threads, values

SOURCE = os.environ["GRADWIRE_SOURCE"]
INCLUDE = os.path.join(SOURCE, "include")


# ---- the header ----------------------------------------------------------------


def constants():
    """C's name of each number in _api."""
    prefixes = ("OK", "PENDING", "SKIPPED", "ERR_", "SPAWN_", "NONFINITE_", "TRAIT_",
                "STAGES_")
    return {f"GW_{name}": value for name, value in vars(_api).items()
            if name.startswith(prefixes) and isinstance(value, int)}


def offsets():
    """"struct.field": (offset, size) of each field of each struct in _api."""
    return {f"{struct}.{field}": (getattr(kind, field).offset, getattr(kind, field).size)
            for struct, kind in _api.STRUCTS.items() for field, _ in kind._fields_}


def c_program():
    lines = [f'printf("{name} %d\\n", (int){name});' for name in constants()]
    for struct, kind in _api.STRUCTS.items():
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        for field, _ in kind._fields_:
            lines.append(f'printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, '
                         f'{field}), sizeof((({struct} *)0)->{field}));')
    return ("#include <stdio.h>\n#include <gradwire_elastic.h>\nint main(void)\n{\n" +
            "\n".join(lines) + "\nreturn 0;\n}\n")


def says_c():
    with tempfile.TemporaryDirectory() as directory:
        source, program = os.path.join(directory, "a.c"), os.path.join(directory, "a")
        with open(source, "w") as f:
            f.write(c_program())
        subprocess.run(["cc", "-I", INCLUDE, source, "-o", program],
                       check=True)
        out = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: tuple(map(int, line.split()[1:]))
            for line in out.splitlines()}


def header_text():
    """gradwire.h, the headers that it includes, and gradwire_elastic.h, without comments."""
    text = ""
    for name in ("gradwire.h", "gradwire_spec.h", "gradwire_transport.h", "gradwire_elastic.h"):
        with open(os.path.join(INCLUDE, name)) as f:
            text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return re.sub(r"\\\n", " ", text)


def test_numbers_and_structs():
    import ctypes
    c = says_c()
    for name, value in constants().items():
        assert c[name] == (value,), f"{name} is {c[name]}, not {value}"
    for name, place in offsets().items():
        assert c[name] == place, f"{name} is {c[name]}, not {place}"
    for struct, kind in _api.STRUCTS.items():
        assert c[struct] == (ctypes.sizeof(kind),), struct
    statuses = re.findall(r"X\((GW_\w+), (-?\d+)", header_text())
    traits = [pair for pair in statuses if pair[0].startswith("GW_TRAIT_")]
    values = {**{n: int(v) for n, v in statuses}, **{n: 1 << int(v) for n, v in traits}}
    assert len(traits) > 10 and values.items() <= constants().items(), statuses
    assert set(spec.TRAITS) == {n[len("GW_TRAIT_"):].lower() for n, _ in traits}, spec.TRAITS


def kind_of(declaration):
    """What ctypes should say of an argument or a result in C."""
    text = declaration.replace("const", " ").strip()
    if "*" in text or "[" in text:
        return "pointer"
    word = text.split()[0]
    return {"gw_status": "int", "uint64_t": "size_t"}.get(word, word)


def kind_in_ctypes(kind):
    import ctypes
    if kind is None:
        return "void"
    if kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents"):
        return "pointer"
    names = {ctypes.c_int: "int", ctypes.c_size_t: "size_t", ctypes.c_double: "double"}
    structs = {v: k for k, v in _api.STRUCTS.items()}
    return names.get(kind) or structs[kind]


def test_signatures():
    text = header_text()
    for name, (result, *arguments) in _api.FUNCTIONS.items():
        found = re.search(r"GW_API\s+([^;()]*?[\s*])" + name + r"\(([^;]*)\);", text, re.S)
        assert found, f"{name} is not in gradwire.h"
        own = found.group(2).strip()
        wanted = [] if own == "void" else [kind_of(a) for a in own.split(",")]
        assert [kind_in_ctypes(a) for a in arguments] == wanted, (name, wanted)
        assert kind_in_ctypes(result) == kind_of(found.group(1)), name


# ---- workers as threads --------------------------------------------------------


def test_dense():
    for workers in (1, 2, 3, 5):
        assert len(set(on_threads(workers, averages))) == 1


def learns(comm, spec, begin, end, x, sync):
    for step in range(begin, end):
        g = x + values(comm.rank, step, x.size)
        if sync.gradient(g):
            x -= np.float32(0.1) * g
        sync.model(x)


def test_allgather_is_bounded():
    """A worker that announces more than is due is named, and nothing is made ready for
    what it has announced; on itself, too."""
    def body(comm):
        if comm.rank == 2:
            comm._allgather((4 << 30).to_bytes(8, "little"), 8)
            return
        raises(gradwire.DataError, "worker 2 announces 4294967296 bytes, expected at most "
               "100", lambda: comm.allgather(b"x", limit=100))

    def too_long(comm):
        mine = b"x" * (101 if comm.rank == 1 else 100)
        raises(gradwire.DataError, "worker 1 announces 101 bytes",
               lambda: comm.allgather(mine, limit=100))
        assert comm.allgather(mine[:50], limit=50) == [b"x" * 50] * 3  # all is well

    on_threads(3, body)
    on_threads(3, too_long)


def test_model_recipes():
    def body(comm):
        sync = gradwire.Sync(50, "local:3+topk:0.2", comm)
        x = values(comm.rank, 7, 50)
        sync.start(x)
        learns(comm, "", 0, 6, x, sync)
        sync.finish(x)
        return x.tobytes()

    assert len(set(on_threads(3, body))) == 1


# ---- states --------------------------------------------------------------------


def test_states():
    layout = [("a", (10, 20)), ("b", 100)]
    for spec in ("gtopk:0.05", "drop:0.9", "local:3", "pqasgd:2,4", "local:2,average=polyak"):
        saved = {}

        def whole(comm):
            sync = gradwire.Sync(layout, spec, comm)
            x = values(0, 99, 300)
            sync.start(x)
            learns(comm, spec, 0, 5, x, sync)
            saved[comm.rank] = (x.copy(), sync.state_dict())
            learns(comm, spec, 5, 9, x, sync)
            return x, sync.state_dict()

        def resumed(comm):
            # In another order: what is remembered belongs to names.
            sync = gradwire.Sync(layout, spec, comm)
            x, state = saved[comm.rank]
            sync.load_state_dict(state)
            x = x.copy()
            learns(comm, spec, 5, 9, x, sync)
            return x, sync.state_dict()

        for (x, s), (y, t) in zip(on_threads(3, whole), on_threads(3, resumed)):
            assert x.tobytes() == y.tobytes(), spec
            assert s["step"] == t["step"] == 9 and s["stats"] == t["stats"]
            for name in s.get("residual", ()):
                np.testing.assert_array_equal(s["residual"][name], t["residual"][name])


def mass(states):
    return {name: sum(s["residual"][name].astype(float) for s in states)
            for name in ("a", "b")}


def test_another_number_and_order():
    def save(comm):
        sync = gradwire.Sync([("a", 200), ("b", 100)], "topk:0.02", comm)
        for step in range(3):
            sync.gradient(values(comm.rank, step, 300))
        return sync.state_dict()

    old = on_threads(4, save)

    def load(comm):
        sync = gradwire.Sync([("b", 100), ("a", 200)], "topk:0.02", comm)
        sync.load_state_dict(old)
        here = sync.state_dict()
        sync.arrange(["a", "b"])
        again = sync.state_dict()
        for name in ("a", "b"):
            np.testing.assert_array_equal(here["residual"][name], again["residual"][name])
        raises(ValueError, "must name every tensor", lambda: sync.arrange(["a"]))
        sync.gradient(values(comm.rank, 9, 300))
        return again

    for workers in (1, 2, 3, 4, 6):
        new = on_threads(workers, load)
        for name, sum_ in mass(old).items():
            np.testing.assert_allclose(mass(new)[name], sum_, atol=1e-5)


# ---- wrong use -----------------------------------------------------------------


def test_errors():
    def body(comm):
        sync = gradwire.Sync(8, "dense", comm)
        raises(TypeError, "float32", lambda: sync.gradient(np.zeros(8)))
        raises(TypeError, "contiguous", lambda: sync.gradient(np.zeros(16, "f4")[::2]))
        raises(ValueError, "8 floats", lambda: sync.gradient(np.zeros(9, "f4")))
        raises(ValueError, "two tensors of the layout have the name 'a'",
               lambda: gradwire.Sync([("a", 1), ("a", 2)], "dense", comm))
        raises(gradwire.SpecError, "densse", lambda: gradwire.Sync(8, "densse", comm))
        raises(ValueError, "expected one of 'stop'", lambda: gradwire.Sync(8, "dense", comm, nonfinite="x"))
        raises(gradwire.NonFiniteError, "worker 0 holds NaN",
               lambda: sync.gradient(np.full(8, np.nan, "f4")))
        raises(ValueError, "no state", lambda: sync.load_state_dict([]))
        comm.close()
        raises(ValueError, "closed", lambda: sync.stats())
        raises(ValueError, "closed", comm.barrier)

    on_threads(1, body)
    raises(ValueError, "expected host:port", lambda: gradwire.rendezvous(0, 1, "here"))
    assert "gtopk" in gradwire.check_spec("gtopk:0.1")
    assert gradwire.needs_optimizer("local:4") and not gradwire.needs_optimizer("dense")


def test_describe():
    """What the library tells about specs, and the same about every recipe."""
    d = gradwire.describe("gtopk:0.01+q:4")
    assert d.sparse and d.coded and d.residual and d.like_momentum and d.keeps_equal, d
    assert not d.needs_model and not d.gathers and d.bytes_per_param == 4 and d.period == 1, d
    assert [s.name for s in d.stages] == ["gtopk", "q"] and not d.stages[1].recipe
    density = d.stages[0].keys[0]
    assert density.name == "density" and density.required and "at most 1" in density.range
    bucket, = (k for k in d.stages[1].keys if k.name == "bucket")
    assert bucket.fallback == "512" and not bucket.required and "norm" in bucket.meaning
    assert gradwire.describe("local:grow,grow=3").growth == 3
    assert gradwire.describe("a2sgd").drifts and not gradwire.describe("a2sgd:resync=9").drifts
    names, examples = [name for name, _ in gradwire.recipes()], gradwire.examples()
    assert len(names) == len(examples) > 10
    for name, example in zip(names, examples):
        stage, = gradwire.describe(example).stages
        assert stage == gradwire.describe_stage(name) and stage.example == example, stage
        assert stage.recipe and stage.summary and stage.cost and stage.expect, stage
    raises(gradwire.SpecError, "did you mean 'gtopk'", lambda: gradwire.describe("gtopkk:1"))
    raises(gradwire.SpecError, "did you mean 'gtopk'", lambda: gradwire.describe_stage("gtopkk"))
    raises(TypeError, "spec must be a string", lambda: gradwire.describe(3))


def test_library_not_found():
    """What is named but missing is said, with what to do."""
    env = dict(os.environ, GRADWIRE_LIBRARY="/nowhere/libgradwire.so")
    out = subprocess.run([sys.executable, "-c", "import gradwire"], env=env,
                         capture_output=True, text=True)
    assert out.returncode == 1 and "no libgradwire.so at /nowhere" in out.stderr, out.stderr


def test_documented_loop():
    """The example in docs/pytorch.md for those without PyTorch."""
    with open(os.path.join(SOURCE, "docs", "pytorch.md")) as f:
        blocks = re.findall(r"```python\n(.*?)```", f.read(), re.S)
    code = next(b for b in blocks if "def work(comm)" in b)
    code = code.replace("    sync.finish(x)\n", "    sync.finish(x)\n    done.append(x)\n")
    names = {"done": []}
    exec(code, names)
    assert len(names["done"]) == 4
    assert all(abs(float(x.mean()) - 1.5) < 0.6 for x in names["done"])


def test_no_torch_needed():
    code = "import sys, gradwire; assert 'torch' not in sys.modules; print(gradwire.__version__)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.returncode == 0 and out.stdout.strip() == gradwire.version(), out


def test_import_is_quick():
    """150 ms of a core at most, from the start of Python on; nobody else's work counts."""
    code = ("import sys, gradwire, resource; assert not {'torch', 'numpy'} & set(sys.modules); "
            "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime)")
    took = [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True,
                                 text=True).stdout) for _ in range(5)]
    assert min(took) < 0.15, took


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            test()
